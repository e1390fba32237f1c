"""Everything that Recheck computes. The workflow decides what depends on what."""

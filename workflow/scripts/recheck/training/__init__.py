"""Training: one engine for every run, and its resumable state."""

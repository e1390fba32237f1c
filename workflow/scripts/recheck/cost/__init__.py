"""What a study costs before it runs: steps, FLOPs, memory, disk and hours; and what it has cost so far."""

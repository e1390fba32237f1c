"""Losses of *Contextual Similarity Optimization* and of its baselines."""

"""Losses of *Contextual Similarity Optimization* and its baselines."""

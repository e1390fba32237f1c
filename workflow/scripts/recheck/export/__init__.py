"""Trained models in the layouts of other libraries."""

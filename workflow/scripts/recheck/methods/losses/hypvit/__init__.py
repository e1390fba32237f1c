"""Losses of "Hyperbolic Vision Transformers: Combining Improvements in Metric Learning" (CVPR 2022)."""

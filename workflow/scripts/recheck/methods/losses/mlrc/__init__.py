"""Losses of *A Metric Learning Reality Check* and of within-pair mining, as their released code computes them."""

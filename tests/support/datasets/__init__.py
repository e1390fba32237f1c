"""Small image datasets, labels and random points, created when a test needs them."""

"""Small image datasets, created when a test needs them."""

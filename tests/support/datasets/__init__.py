"""Small image datasets, made on the spot."""

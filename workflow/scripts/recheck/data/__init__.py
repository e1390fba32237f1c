"""Datasets: fetch, verify, index, pack, transform, split."""

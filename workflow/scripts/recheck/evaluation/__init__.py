"""Exact retrieval metrics for embeddings."""

"""Exact retrieval metrics of embeddings."""

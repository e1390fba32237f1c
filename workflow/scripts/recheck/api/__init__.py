"""What ``import recheck`` offers: metrics of embeddings, and trained models."""

"""The one training engine and its resumable state."""

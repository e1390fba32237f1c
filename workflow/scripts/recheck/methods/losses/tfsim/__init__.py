"""Losses of TensorFlow Similarity, for the calibration study."""

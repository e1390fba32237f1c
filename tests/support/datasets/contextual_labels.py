"""Labels of the contextual study's training images, from the published number of images per class."""

from pathlib import Path

import numpy as np

COUNTS = Path(__file__).with_name("contextual_class_counts.npz")


def training_labels(dataset: str) -> np.ndarray:
    """The label of each training image of a dataset, sorted."""
    with np.load(COUNTS) as counts:
        of_class = counts[dataset]
    return np.repeat(np.arange(len(of_class)), of_class)

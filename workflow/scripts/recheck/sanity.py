"""Sanity checks: signs that a result is wrong although nothing failed. docs/reading.md explains each of them.

Training, evaluation and the table look for them. A finding is stored as plain data, ``{"check": …, "text": …}``, in the
run's ``run.json`` or in the evaluation.
"""

Finding = dict[str, str]

MARK = "⚠"
# Check → what it found, in a sentence that is true of every run with this finding.
CHECKS = {
    "no_negative_pairs": "at least half of the batches had images of only one class",
    "no_positive_pairs": "at least half of the batches had no two images of one class",
    "zero_loss": "the loss was exactly 0 in every step",
    "constant_loss": "the loss was the same in every step",
    "zero_gradient": "weights that should be trained received no gradient",
    "unchanged_weights": "weights that should be trained did not change",
    "frozen_batch_norm": "batch norm is frozen with the statistics of random weights (mean 0, variance 1)",
    "epoch_0": "epoch 0, the network before training, was chosen in every fold",
    "collapsed": "all test images have almost the same embedding",
    "chance": "retrieval is no better than a random order",
}


def finding(check: str, text: str) -> Finding:
    assert check in CHECKS
    return {"check": check, "text": text}

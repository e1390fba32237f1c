"""OpenCV itself is the oracle: all of its interpolations, to one grey level."""

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recheck.data import opencv_resize, transforms
from support.golden.fidelity import compares

FLAGS = {
    "nearest": cv2.INTER_NEAREST,
    "bilinear": cv2.INTER_LINEAR,
    "bicubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
    "lanczos": cv2.INTER_LANCZOS4,
}
SIDE = st.integers(1, 90)


def noise(height, width):
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def furthest(image, size, mode):
    """The largest difference to OpenCV, in grey levels."""
    theirs = cv2.resize(image, tuple(reversed(size)), interpolation=FLAGS[mode]).astype(int)
    ours = opencv_resize.resize(torch.from_numpy(image).permute(2, 0, 1), size, mode)
    assert ours.dtype == torch.uint8
    return np.abs(theirs - ours.permute(1, 2, 0).numpy()).max()


def test_every_interpolation_is_compared():
    assert FLAGS.keys() == opencv_resize.TAPS.keys() == set(transforms.INTERPOLATIONS)


@compares("transform", studies=["unbiased"], tolerance="1 grey level (variant code)")
@pytest.mark.parametrize("mode", FLAGS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((427, 640), [256, 383]),
        ((100, 150), [224, 224]),
        ((300, 200), [224, 224]),
        ((100, 400), [224, 224]),
        ((400, 100), [224, 224]),
        ((448, 448), [224, 224]),
    ],
)
def test_it_equals_opencv_to_one_grey_level(before, after, mode):
    assert furthest(noise(*before), after, mode) <= 1


@settings(max_examples=60)
@given(SIDE, SIDE, SIDE, SIDE, st.sampled_from(sorted(FLAGS)))
def test_it_equals_opencv_for_any_size(height, width, new_height, new_width, mode):
    assert furthest(noise(height, width), [new_height, new_width], mode) <= 1


def test_transforms_choose_it():
    image = noise(60, 80)
    theirs = cv2.resize(image, (32, 24), interpolation=cv2.INTER_CUBIC).astype(int)
    step = {"shorter": 24, "interpolation": "bicubic"}

    def resized(**more):
        made = transforms.build([{"resize": {**step, **more}}])(image, torch.Generator())
        return np.abs(made.permute(1, 2, 0).numpy() - theirs).max()

    assert resized(resampling="opencv") <= 1
    assert resized() > 10, "the default is antialiased"


def test_random_crops_differ_only_in_resampling():
    options = {"size": 24, "scale": [0.2, 0.9], "ratio": [0.75, 1.333], "interpolation": "random"}
    image = torch.from_numpy(noise(50, 70)).permute(2, 0, 1)
    for seed in range(20):
        generators = [torch.Generator().manual_seed(seed) for _ in range(2)]
        usual, other = (
            transforms.RandomResizedCrop(**options, resampling=name)(image, generator)
            for name, generator in zip(transforms.RESAMPLINGS, generators, strict=True)
        )
        assert usual.shape == other.shape and torch.equal(generators[0].get_state(), generators[1].get_state())


@pytest.mark.parametrize(("offset", "left"), [("nearest", 80), ("down", 79)])
def test_a_centre_crop_rounds_an_odd_margin_as_asked(offset, left):
    """427 × 640 pixels become 256 × 383, whose margin is 159."""
    image = np.broadcast_to(np.arange(383) % 256, (256, 383))[..., None].astype(np.uint8).repeat(3, axis=2)
    crop = transforms.build([{"center_crop": {"size": 224, "offset": offset}}])(image, torch.Generator())
    assert crop[0, 0, 0] == left and crop.shape == (3, 224, 224)

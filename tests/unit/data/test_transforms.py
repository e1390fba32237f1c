"""Transforms: torchvision's results and distributions, using only the passed generator."""

import inspect
import math
import pickle
import random
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import RandAugment, v2
from torchvision.transforms.v2 import functional

from recheck import parts
from recheck.data import transforms
from recheck.errors import UserError
from recheck.study.yaml import read_yaml
from support.golden.fidelity import CONTEXTUAL, compares
from support.project import ROOT

TRAIN = [
    {"random_resized_crop": {"size": 24, "scale": [0.16, 1], "ratio": [0.75, 1.33]}},
    {"horizontal_flip": {"p": 0.5}},
]


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def tensor(image):
    return torch.from_numpy(image.copy()).permute(2, 0, 1)


@compares("transform", studies=CONTEXTUAL, tolerance="equal to torchvision")
@pytest.mark.parametrize("size", [(40, 60), (60, 40), (33, 33), (20, 50)])
@pytest.mark.parametrize(
    ("spec", "peer"),
    [
        ([{"resize": {"shorter": 24}}], v2.Resize(24, antialias=True)),
        ([{"resize": {"exact": [20, 31]}}], v2.Resize([20, 31], antialias=True)),
        (
            [{"resize": {"shorter": 24, "interpolation": "bicubic"}}],
            v2.Resize(24, v2.InterpolationMode.BICUBIC, antialias=True),
        ),
        ([{"center_crop": {"size": 27}}], v2.CenterCrop(27)),
        ([{"center_crop": {"size": 48}}], v2.CenterCrop(48)),
        ([{"horizontal_flip": {"p": 1}}], v2.RandomHorizontalFlip(1.0)),
        ([{"horizontal_flip": {"p": 0}}], v2.Identity()),
        ([], v2.Identity()),
    ],
)
def test_results_equal_torchvision(size, spec, peer):
    image = picture(*size)
    made = transforms.build(spec)(image, seeded())
    assert made.dtype == torch.uint8
    assert made.is_contiguous()
    assert torch.equal(made, peer(tensor(image)))


def test_a_random_crop_is_the_resize_of_its_box():
    step = transforms.RandomResizedCrop(size=24, scale=[0.2, 0.9], ratio=[0.75, 1.333])
    image = tensor(picture(50, 70))
    for seed in range(20):
        top, left, height, width = step.box(50, 70, seeded(seed))
        expected = functional.resized_crop(image, top, left, height, width, [24, 24], antialias=True)
        assert torch.equal(step(image, seeded(seed)), expected)


@compares("transform", studies=["hyperbolic"], tolerance="equal to torchvision")
def test_a_random_crop_can_be_bicubic():
    step = transforms.RandomResizedCrop(size=24, scale=[0.2, 1], ratio=[0.75, 1.333], interpolation="bicubic")
    image, mode = tensor(picture(50, 70)), v2.InterpolationMode.BICUBIC
    for seed in range(5):
        top, left, height, width = step.box(50, 70, seeded(seed))
        expected = functional.resized_crop(image, top, left, height, width, [24, 24], mode, antialias=True)
        assert torch.equal(step(image, seeded(seed)), expected)


@compares("transform", studies=["recipe_2025"], tolerance="equal to torchvision")
@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, {}),
        (
            {"operations": 3, "interpolation": "bilinear"},
            {"num_ops": 3, "interpolation": v2.InterpolationMode.BILINEAR},
        ),
        ({"operations": 1, "magnitude": 30}, {"num_ops": 1, "magnitude": 30}),
    ],
)
def test_rand_augment_is_torchvisions(options, arguments):
    """Equal images from equal seeds; every step draws a new seed, and the global generator is left alone."""
    image, peer = picture(30, 40), RandAugment(**arguments)
    step = transforms.build([{"rand_augment": options}])
    torch.manual_seed(5)
    before, generator, seeds = torch.get_rng_state(), seeded(1), seeded(1)
    different = 0
    for _ in range(30):
        made = step(image, generator)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(int(torch.randint(0, 2**63 - 1, (), generator=seeds)))
        expected = np.array(peer(Image.fromarray(image)))
        torch.set_rng_state(before)
        assert made.dtype == torch.uint8 and np.array_equal(made.permute(1, 2, 0).numpy(), expected)
        different += not np.array_equal(expected, image)
    assert different > 15


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"operations": 0}, "'operations' of transform 'rand_augment' must be a whole number of at least 1, found 0."),
        ({"magnitude": 31}, "'magnitude' of transform 'rand_augment' must be below 'bins' (31), found 31."),
        ({"interpolation": "area"}, "Unknown interpolation 'area' of transform 'rand_augment'"),
    ],
)
def test_wrong_settings_of_rand_augment(options, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        transforms.build([{"rand_augment": options}])


@settings(max_examples=60)
@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(sorted),
    st.tuples(st.floats(0.2, 5), st.floats(0.2, 5)).map(sorted),
    st.integers(0, 2**32),
)
def test_boxes_lie_inside(height, width, scale, ratio, seed):
    step = transforms.RandomResizedCrop(size=8, scale=list(scale), ratio=list(ratio))
    top, left, h, w = step.box(height, width, seeded(seed))
    assert 0 <= top <= top + h <= height
    assert 0 <= left <= left + w <= width


def quantiles(values):
    return np.quantile(values, [0.1, 0.3, 0.5, 0.7, 0.9])


def test_boxes_are_distributed_like_torchvisions():
    scale, ratio, size = (0.16, 1.0), (0.75, 1.33), (120, 160)
    torch.manual_seed(0)
    peer, blank = v2.RandomResizedCrop(24, scale, ratio), torch.zeros(3, *size, dtype=torch.uint8)
    theirs = [peer.make_params([blank]) for _ in range(3000)]
    theirs = np.array([[box["top"], box["left"], box["height"], box["width"]] for box in theirs], dtype=float)
    step = transforms.RandomResizedCrop(size=24, scale=list(scale), ratio=list(ratio))
    generator = seeded()
    ours = np.array([step.box(*size, generator) for _ in range(3000)], dtype=float)
    for features in (
        lambda b: b[:, 2] * b[:, 3],
        lambda b: np.log(b[:, 3] / b[:, 2]),
        lambda b: b[:, 0],
        lambda b: b[:, 1],
    ):
        spread = features(theirs).std()
        assert quantiles(features(ours)) == pytest.approx(quantiles(features(theirs)), abs=0.15 * spread)


def test_the_central_crop_is_used_when_nothing_fits():
    step = transforms.RandomResizedCrop(size=8, scale=[1, 1], ratio=[1, 1])
    assert step.box(10, 30, seeded()) == (0, 10, 10, 10)
    assert step.box(30, 10, seeded()) == (10, 0, 10, 10)
    wide = transforms.RandomResizedCrop(size=8, scale=[4, 4], ratio=[0.5, 2])
    assert wide.box(20, 25, seeded()) == (0, 0, 20, 25)


def test_flips_have_the_given_probability():
    flip = transforms.build([{"horizontal_flip": {"p": 0.3}}])
    image, generator = picture(2, 2), seeded()
    flipped = sum(not torch.equal(flip(image, generator), tensor(image)) for _ in range(2000))
    assert flipped / 2000 == pytest.approx(0.3, abs=0.04)


def test_all_randomness_comes_from_the_generator():
    transform = transforms.build(TRAIN)
    copy = pickle.loads(pickle.dumps(transform))  # noqa: S301
    image = picture(40, 50)
    first = transform(image, seeded(7))
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    before = torch.get_rng_state()
    assert torch.equal(copy(image, seeded(7)), first)
    assert torch.equal(torch.get_rng_state(), before)
    others = [transform(image, seeded(seed)) for seed in range(8, 16)]
    assert not any(torch.equal(other, first) for other in others)


def test_a_view_into_a_file_is_not_modified():
    image = picture(30, 30)
    image.flags.writeable = False
    before = image.copy()
    made = transforms.build([])(image, seeded())
    made.zero_()
    assert np.array_equal(image, before)


@pytest.mark.parametrize(("name", "filter_"), [("area", Image.Resampling.BOX), ("lanczos", Image.Resampling.LANCZOS)])
def test_filters_of_pillow(name, filter_):
    image = picture(40, 60)
    made = transforms.build([{"resize": {"exact": [20, 31], "interpolation": name}}])(image, seeded())
    assert torch.equal(made, tensor(np.array(Image.fromarray(image).resize((31, 20), filter_))))
    assert made.is_contiguous() and made.dtype == torch.uint8


def test_random_interpolations_are_equally_likely():
    options = {"size": 24, "scale": [0.2, 0.9], "ratio": [0.75, 1.333]}
    step = transforms.RandomResizedCrop
    each = {name: step(**options, interpolation=name) for name in transforms.ANY_OF}
    drawn = step(**options, interpolation="random")
    image, counts = tensor(picture(50, 70)), dict.fromkeys(each, 0)
    for seed in range(600):
        made = drawn(image, seeded(seed))
        matching = [name for name, fixed in each.items() if torch.equal(fixed(image, seeded(seed)), made)]
        assert matching, "the box does not depend on the interpolation"
        counts[matching[0]] += len(matching) == 1
    assert min(counts.values()) > 80 and max(counts.values()) < 160
    assert torch.equal(drawn(image, seeded(3)), drawn(image, seeded(3)))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            [{"resize": {"shorter": 3, "interpolation": "random"}}],
            "Unknown interpolation 'random' of transform 'resize'",
        ),
        ([{"centre_crop": {"size": 3}}], "did you mean 'center_crop'"),
        ([{"center_crop": {"sise": 3}}], "Unknown key 'sise' of transform 'center_crop'; did you mean 'size'"),
        ([{"center_crop": None}], "'center_crop' needs the key 'size'"),
        (
            [{"center_crop": {"size": 3.5}}],
            "'size' of transform 'center_crop' must be a whole number of at least 1 pixel, found 3.5",
        ),
        ([{"center_crop": {"size": 0}}], "must be a whole number of at least 1 pixel, found 0"),
        ([{"center_crop": 227}], "options of transform 'center_crop' must be keys, .* found 227"),
        ([{"resize": {}}], "must have either 'shorter' or 'exact', found neither"),
        ([{"resize": {"shorter": 3, "exact": [3, 3]}}], "must have either 'shorter' or 'exact', found both"),
        ([{"resize": {"exact": [3]}}], "'exact' of transform 'resize' must be a height and a width in pixels"),
        ([{"resize": {"shorter": 3, "interpolation": "bilinaer"}}], "did you mean 'bilinear'"),
        ([{"random_resized_crop": {"size": 3, "scale": [1, 0.5], "ratio": [1, 1]}}], r"'scale' .* found \[1, 0.5\]"),
        ([{"random_resized_crop": {"size": 3, "scale": [0.5, 1], "ratio": [0, 1]}}], "'ratio' of transform"),
        ([{"random_resized_crop": {"size": 3, "scale": [0.5, 1], "ratio": [math.nan, 1]}}], "'ratio' of transform"),
        ([{"horizontal_flip": {"p": 1.5}}], "must be a probability from 0 to 1, found 1.5"),
        ({"center_crop": {"size": 3}}, "must be a list of steps"),
        ([{"center_crop": {"size": 3}, "resize": {"shorter": 3}}], "must be a list of steps"),
    ],
)
def test_specifications_that_are_wrong(spec, sentence):
    with pytest.raises(UserError, match=sentence):
        transforms.build(spec)


def test_random_crops_cover_all_positions():
    image = np.arange(7 * 9, dtype=np.uint8).reshape(7, 9, 1).repeat(3, axis=2)
    crop = transforms.build([{"random_crop": {"size": 5}}])
    generator = seeded()
    corners = {tuple(divmod(int(crop(image, generator)[0, 0, 0]), 9)) for _ in range(400)}
    assert corners == {(top, left) for top in range(3) for left in range(5)}


def test_random_crops_of_small_images_are_padded():
    image = np.full((3, 9, 3), 200, dtype=np.uint8)
    crop = transforms.build([{"random_crop": {"size": 5}}])(image, seeded())
    assert crop.shape == (3, 5, 5)
    assert crop[0, :, 0].tolist() == [0, 200, 200, 200, 0]


def test_the_schema_of_a_study_knows_the_steps_and_their_keys():
    schema = read_yaml(ROOT / "workflow/schemas/study.schema.yaml")
    known = schema["$defs"]["steps"]["items"]["properties"]
    assert set(known) == {*parts.names("transform"), "custom"}
    for name in parts.names("transform"):
        parameters = inspect.signature(parts.find(name, "transform")).parameters
        assert set(known[name]["properties"]) == set(parameters)
        needed = {key for key, about in parameters.items() if about.default is about.empty}
        assert set(known[name].get("required", [])) == needed
    modes = {
        name: set(known[name]["properties"]["interpolation"]["enum"]) for name in ("resize", "random_resized_crop")
    }
    assert modes["resize"] == set(transforms.INTERPOLATIONS) == set(transforms.ANY_OF)
    assert modes["random_resized_crop"] == {*transforms.INTERPOLATIONS, "random"}


CUSTOM = """
import torch


class Grey:
    def __init__(self, fault=""):
        self.fault = fault

    def __call__(self, pixels, generator):
        if self.fault == "raises":
            return pixels.nothing
        grey = pixels.float().mean(0, keepdim=True).expand(3, -1, -1)
        return grey if self.fault == "float" else grey.to(torch.uint8)
"""


def test_a_step_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "greys.py").write_text(CUSTOM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    steps = [{"custom": {"class": "greys:Grey"}}, {"center_crop": {"size": 2}}]
    made = transforms.build(steps)(image, seeded())
    assert made.shape == (3, 2, 2) and (made == made[0]).all()
    with pytest.raises(UserError, match="would run code from outside Recheck"):
        transforms.build(steps, own_code=False)
    for fault, sentence in (
        (
            "raises",
            r"^greys.py, line 11, in __call__ \(transform 'greys:Grey'\): AttributeError: .*uint8 of shape \(3, 4, 4\)",
        ),
        ("float", r"the transform 'greys:Grey' returned float32 of shape \(3, 4, 4\)\. It must return a uint8 tensor"),
    ):
        with pytest.raises(UserError, match=sentence):
            transforms.build([{"custom": {"class": "greys:Grey", "fault": fault}}])(image, seeded())


def test_small_images_are_counted():
    shapes = np.array([[64, 64], [30, 90], [63, 64]])
    spec = {"resize": None, "train": [{"random_crop": {"size": 64}}], "eval": [{"resize": {"shorter": 64}}]}
    (sentence,) = transforms.padding_notes(spec, shapes)
    assert sentence.startswith(
        "'transforms.train' crops 64 pixels and pads smaller images with black: 2 of 3. 'transforms.resize"
    )

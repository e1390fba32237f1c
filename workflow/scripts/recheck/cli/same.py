"""Print one line: whether two images are near enough to be of the same class."""

import argparse

from recheck.cli.text import (
    NO,
    THRESHOLDS,
    YES,
    about_threshold,
    add_model,
    add_threshold,
    calibration,
    digits,
    load,
    print_json,
)

HELP = "decide whether two images show the same class"
EXAMPLES = """\
  recheck same results/calibration_tiny/emoji/circle_loss/seed0 one.png other.png
  recheck same results/quickstart/emoji/triplet/seed0 one.png other.png --threshold 0.3 --json
"""
NOTES = THRESHOLDS


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("a", metavar="IMAGE", help="an image file")
    command.add_argument("b", metavar="IMAGE", help="the image file to compare it with")
    add_threshold(command)


def run(options: argparse.Namespace) -> int:
    model = load(options)
    result = model.same(options.a, options.b, options.threshold)
    if options.json:
        print_json({**result._asdict(), "calibration": calibration(model, options.threshold)})
    else:
        limit, distance = digits(result.threshold, result.distance)
        answer, sign = ("same class", "≤") if result.same else ("not the same class", ">")
        print(f"{answer}: distance {distance} {sign} {limit} ({about_threshold(model, options.threshold)})")
    return YES if result.same else NO

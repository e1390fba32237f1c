"""Decide whether two images show the same class, or find the images of a folder that are nearest to an image.

This is a command, not a script of the workflow. It uses a model from a study with calibration, by default on the CPU.
``recheck.evaluation.calibrated_model`` offers the same as Python functions and explains the thresholds in more detail.
"""

import argparse
import json
import logging
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing the networks takes seconds; --help and mistyped options should not wait
    from recheck.evaluation.calibrated_model import CalibratedModel

YES, NO, ERROR, INTERRUPTED = 0, 1, 2, 130
NAMED = 3  # skipped files that a warning names

MEANING = """\
what the threshold means:
  Thresholds are calibrated for the nearest image of an index to each query.
    precision  of the queries whose nearest neighbour is within the threshold, the share whose neighbour has the
               right class
    recall     of the queries whose nearest neighbour has the right class, the share whose neighbour is within the
               threshold
  Expect these values for the first result of `nearest`, in a folder that is about as dense as the study's index and
  contains images of the query's class, as that index always did. Arbitrary pairs (`same`), later results of `nearest`,
  and queries whose class is not in the folder have another precision and recall, which were not measured.

  unseen  calibrated on classes that the model was not trained on, like yours (default)
  seen    calibrated on new images of classes that the model was trained on
  0.3     a cosine distance of your choice, from 0 (same direction) to 2 (opposite direction)

exit code:
  0  yes: same class, or the nearest image is near enough
  1  no
  2  error: standard error has one line about it
"""

EXAMPLES = """\
examples:
  python workflow/scripts/recognise.py same results/calibration/cars196/circle_loss/seed0 a.jpg b.jpg
  python workflow/scripts/recognise.py same results/calibration/cars196/circle_loss/seed0 a.jpg b.jpg --threshold 0.3
  python workflow/scripts/recognise.py nearest results/calibration/cars196/circle_loss/seed0 a.jpg photos --count 10
  python workflow/scripts/recognise.py nearest results/calibration/cars196/circle_loss/seed0 a.jpg photos --json
"""


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    sys.stdout.reconfigure(errors="backslashreplace")  # file names can contain any bytes
    logging.captureWarnings(True)  # Pillow warns about details of files that it can read
    try:
        from recheck.errors import UserError
    except ImportError as error:
        return _fail(f"Recheck cannot be imported ({error}): activate its environment.")
    try:
        from recheck.evaluation.calibrated_model import CalibratedModel

        if options.own_code:
            sys.path.append(str(Path.cwd()))  # the folder of a study's modules
        model = CalibratedModel.load(options.run, options.device, options.own_code)
        return options.command(model, options)
    except (UserError, OSError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # Python's default exit code means "no" here
        traceback.print_exc()
        return _fail(f"Unexpected {type(error).__name__}: {error} (this is a bug in Recheck)")


def same(model: "CalibratedModel", options: argparse.Namespace) -> int:
    result = model.compare(options.a, options.b, options.threshold)
    if options.json:
        _print_json({**result._asdict(), "calibration": _calibration(model, options.threshold)})
    else:
        limit, distance = _digits(result.threshold, result.distance)
        answer, sign = ("same class", "≤") if result.same else ("not the same class", ">")
        print(f"{answer}: distance {distance} {sign} {limit} ({_about(model, options.threshold)})")
    return YES if result.same else NO


def nearest(model: "CalibratedModel", options: argparse.Namespace) -> int:
    from recheck.data.folder import images_below
    from recheck.errors import UserError

    paths, others = images_below(options.folder)
    query = Path(options.query).resolve()
    paths = [path for path in paths if path.resolve() != query]
    if not paths:
        raise UserError(f"There are no images in {options.folder} to compare with {options.query}.")
    broken: list[str] = []
    results = model.nearest(
        options.query,
        paths,
        options.count,
        options.threshold,
        skipped=lambda path, why: broken.append(f"{path}: {why}"),
    )
    _warn_of_skipped(others, broken)
    if not results:
        raise UserError(f"None of the {len(paths)} images in {options.folder} can be read.")
    limit = model.distance(options.threshold)
    near = sum(match.accepted for match in results)
    if options.json:
        matches = [{**match._asdict(), "path": str(match.path)} for match in results]
        _print_json(
            {
                "matches": matches,
                "threshold": limit,
                "searched": len(paths) - len(broken),
                "skipped": others + len(broken),
                "calibration": _calibration(model, options.threshold),
            }
        )
        return YES if near else NO
    shown, *distances = _digits(limit, *(match.distance for match in results))
    for rank, (match, distance) in enumerate(zip(results, distances, strict=True), start=1):
        print(f"{rank:>3}  {distance}  {'accepted' if match.accepted else 'too far '}  {match.path}")
    about = _about(model, options.threshold)
    if near:
        print(f"{near} of these {len(results)} are near enough: distance ≤ {shown} ({about})")
    else:
        print(f"nothing is near enough: the nearest has distance {distances[0]} > {shown} ({about})")
    return YES if near else NO


def parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--threshold", type=_threshold, default="unseen", metavar="seen|unseen|NUMBER", help="default: unseen"
    )
    common.add_argument("--json", action="store_true", help="print JSON, with all digits")
    common.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    common.add_argument(
        "--own-code",
        action="store_true",
        help="import the 'module:Class' that the model was trained with from the working directory; this runs code "
        "named in the model's file, so use it only for models that you trust",
    )
    shape = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": f"{EXAMPLES}\n{MEANING}"}
    run = {
        "metavar": "RUN_FOLDER",
        "help": "folder with calibration.json, e.g. results/calibration/cars196/circle_loss/seed0",
    }
    top = argparse.ArgumentParser(
        description="Use a calibrated model to compare two images, or to find the images nearest to a query.",
        **shape,
    )
    commands = top.add_subparsers(required=True, metavar="same|nearest")

    one = commands.add_parser(
        "same",
        parents=[common],
        help="decide whether two images show the same class",
        description="Print one line that says whether two images are near enough to be of the same class.",
        **shape,
    )
    one.add_argument("run", **run)
    one.add_argument("a", metavar="IMAGE")
    one.add_argument("b", metavar="IMAGE")
    one.set_defaults(command=same)

    many = commands.add_parser(
        "nearest",
        parents=[common],
        help="find the images of a folder that are nearest to a query",
        description="List the images of a folder and its subfolders that are nearest to a query, with rank, distance, "
        "whether they are near enough, and path. The query itself and files that are not images are skipped.",
        **shape,
    )
    many.add_argument("run", **run)
    many.add_argument("query", metavar="IMAGE")
    many.add_argument("folder", metavar="FOLDER")
    many.add_argument("--count", type=int, default=5, help="how many to list (default: 5)")
    many.set_defaults(command=nearest)
    return top


def _threshold(text: str) -> str | float:
    """A threshold from the command line: a number, or the name of a calibrated threshold."""
    try:
        return float(text)
    except ValueError:
        return text


def _about(model: "CalibratedModel", threshold: str | float) -> str:
    """A description of a threshold's origin."""
    if not isinstance(threshold, str):
        return "your own threshold"
    at = model.threshold(threshold)
    return (
        f"threshold of {at.name.replace('_', ' ')}: precision {100 * at.precision:.3g} %, "
        f"recall {100 * at.recall:.3g} % on {at.queries:,} queries"
    )


def _calibration(model: "CalibratedModel", threshold: str | float) -> dict | None:
    return asdict(model.threshold(threshold)) if isinstance(threshold, str) else None


def _digits(limit: float, *distances: float) -> list[str]:
    """A threshold and distances with at least three digits, and enough to tell each distance from the threshold."""
    for digits in range(3, 9):
        shown = [f"{number:.{digits}f}" for number in (limit, *distances)]
        if all(text != shown[0] or number == limit for text, number in zip(shown[1:], distances, strict=True)):
            break
    return shown


def _print_json(value: dict) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _warn_of_skipped(others: int, broken: list[str]) -> None:
    if others:
        print(f"warning: skipped {others} file(s) without the suffix of an image", file=sys.stderr)
    if broken:
        shown = "; ".join(broken[:NAMED]) + ("; …" if len(broken) > NAMED else "")
        print(f"warning: skipped {len(broken)} file(s) that cannot be read: {shown}", file=sys.stderr)


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return ERROR


if __name__ == "__main__":
    sys.exit(main())

"""Are these two images of the same class? Which images of a folder are nearest to this one?

This is a command, not a script of the workflow; it uses a model that a study with calibration has trained, on the CPU.
``recheck.evaluation.calibrated_model`` has the same as Python functions, and says more of what a threshold means.
"""

import argparse
import json
import logging
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a library of networks takes seconds to import: --help and typing errors do not wait for it
    from recheck.evaluation.calibrated_model import CalibratedModel

YES, NO, ERROR, INTERRUPTED = 0, 1, 2, 130
NAMED = 3  # files that were skipped, in a warning

MEANING = """\
what the threshold means:
  It was calibrated for the nearest image of an index. Of the queries whose nearest neighbour was within the
  threshold, the precision is the share for which that neighbour was of the right class; the recall is the share of
  the queries with a right nearest neighbour for which it was within the threshold. That is what can be expected of
  the first place of `nearest`, in a folder about as dense as the study's index and with images of the query's class,
  which the index always had. Arbitrary pairs, as in `same`, later places of `nearest`, and queries whose class is not
  in the folder have another precision and recall, which were not measured.

  unseen  calibrated on classes that the model was not trained on, as yours are (default)
  seen    calibrated on new images of the classes that it was trained on
  0.3     a cosine distance of your own, from 0 (same direction) to 2

exit code:
  0  yes: same class, or the nearest image is near enough
  1  no
  2  an error; one sentence on the standard error says which
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
    sys.stdout.reconfigure(errors="backslashreplace")  # names of files can be any bytes
    logging.captureWarnings(True)  # Pillow's, about details of files that it can read all the same
    try:
        from recheck.errors import UserError
    except ImportError as error:
        return _fail(f"Recheck cannot be imported ({error}): activate its environment.")
    try:
        from recheck.evaluation.calibrated_model import CalibratedModel

        if options.own_code:
            sys.path.append(str(Path.cwd()))  # where a study's own modules are
        model = CalibratedModel.load(options.run, options.device, options.own_code)
        return options.command(model, options)
    except (UserError, OSError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # Python's own exit code would be that of "no"
        traceback.print_exc()
        return _fail(f"Unexpected {type(error).__name__}: {error} (this is a fault of Recheck)")


def same(model: "CalibratedModel", options: argparse.Namespace) -> int:
    found = model.compare(options.a, options.b, options.threshold)
    if options.json:
        _print_json({**found._asdict(), "calibration": _calibration(model, options.threshold)})
    else:
        limit, distance = _digits(found.threshold, found.distance)
        answer, sign = ("same class", "≤") if found.same else ("not the same class", ">")
        print(f"{answer}: distance {distance} {sign} {limit} ({_about(model, options.threshold)})")
    return YES if found.same else NO


def nearest(model: "CalibratedModel", options: argparse.Namespace) -> int:
    from recheck.data.folder import images_below
    from recheck.errors import UserError

    paths, others = images_below(options.folder)
    query = Path(options.query).resolve()
    paths = [path for path in paths if path.resolve() != query]
    if not paths:
        raise UserError(f"There are no images in {options.folder} to compare {options.query} with.")
    broken: list[str] = []
    found = model.nearest(
        options.query,
        paths,
        options.count,
        options.threshold,
        skipped=lambda path, why: broken.append(f"{path}: {why}"),
    )
    _warn_of_skipped(others, broken)
    if not found:
        raise UserError(f"None of the {len(paths)} images in {options.folder} can be read.")
    limit = model.distance(options.threshold)
    near = sum(match.accepted for match in found)
    if options.json:
        matches = [{**match._asdict(), "path": str(match.path)} for match in found]
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
    shown, *distances = _digits(limit, *(match.distance for match in found))
    for rank, (match, distance) in enumerate(zip(found, distances, strict=True), start=1):
        print(f"{rank:>3}  {distance}  {'accepted' if match.accepted else 'too far '}  {match.path}")
    about = _about(model, options.threshold)
    if near:
        print(f"{near} of these {len(found)} are near enough: distance ≤ {shown} ({about})")
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
        help="let the model import the 'module:Class' that it was trained with, from the working directory; this runs "
        "code that the model's file names, so only for models you trust",
    )
    shape = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": f"{EXAMPLES}\n{MEANING}"}
    run = {
        "metavar": "RUN_FOLDER",
        "help": "folder with calibration.json, e.g. results/calibration/cars196/circle_loss/seed0",
    }
    top = argparse.ArgumentParser(
        description="Use a calibrated model: are two images of the same class, and which images are nearest to one?",
        **shape,
    )
    commands = top.add_subparsers(required=True, metavar="same|nearest")

    one = commands.add_parser(
        "same",
        parents=[common],
        help="are two images of the same class?",
        description="Say in one line whether two images are near enough to be of the same class.",
        **shape,
    )
    one.add_argument("run", **run)
    one.add_argument("a", metavar="IMAGE")
    one.add_argument("b", metavar="IMAGE")
    one.set_defaults(command=same)

    many = commands.add_parser(
        "nearest",
        parents=[common],
        help="which images of a folder are nearest to one?",
        description="List the images of a folder and its subfolders that are nearest to a query: rank, distance, "
        "whether it is near enough, path. The query's own file is left out, files that are no images are skipped.",
        **shape,
    )
    many.add_argument("run", **run)
    many.add_argument("query", metavar="IMAGE")
    many.add_argument("folder", metavar="FOLDER")
    many.add_argument("--count", type=int, default=5, help="how many to list (default: 5)")
    many.set_defaults(command=nearest)
    return top


def _threshold(text: str) -> str | float:
    """A number, or a name that the model knows."""
    try:
        return float(text)
    except ValueError:
        return text


def _about(model: "CalibratedModel", threshold: str | float) -> str:
    """Where a threshold comes from."""
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
    """A threshold and distances with as many digits as it takes to tell them from it, from three on."""
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


def _fail(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return ERROR


if __name__ == "__main__":
    sys.exit(main())

"""List the images of a folder and its subfolders that are nearest to a query, nearest first.

Each line shows the rank, the cosine distance, whether the image is near enough, and its path. The query itself and
files that are not images are skipped. If QUERY is a folder, each of its images is a query.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recheck.cli.text import (
    NO,
    THRESHOLDS,
    YES,
    Skipped,
    about_threshold,
    add_model,
    add_threshold,
    calibration,
    digits,
    load,
    print_json,
)
from recheck.errors import UserError

if TYPE_CHECKING:
    from recheck.api.model import Match, Model

HELP = "find the images of a folder that are nearest to a query"
EXAMPLES = """\
  recheck search results/calibration_tiny/emoji/circle_loss/seed0 one.png photos --count 10
  recheck search results/quickstart/emoji/triplet/seed0 queries photos --json
"""
NOTES = THRESHOLDS


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("query", metavar="QUERY", help="an image, or a folder of images")
    command.add_argument("gallery", metavar="GALLERY", help="folder of the images to search")
    command.add_argument("--count", type=int, default=5, help="number of images to list (default: 5)")
    add_threshold(command)


def run(options: argparse.Namespace) -> int:
    from recheck.data.found_images import images_below

    gallery, others = images_below(options.gallery)
    many = Path(options.query).is_dir()
    queries = images_below(options.query)[0] if many else [Path(options.query)]
    if not queries:
        raise UserError(f"There are no images in {options.query}: pass an image, or a folder of images.")
    itself = {query.resolve() for query in queries}
    searched = gallery if many else [path for path in gallery if path.resolve() not in itself]
    if not searched:
        raise UserError(
            f"There are no images in {options.gallery} to compare with {options.query}: pass a folder of other images."
        )
    model, skipped = load(options), Skipped(others)
    if many:  # one more than asked for, because a query may find itself
        results = model.search(queries, searched, options.count + 1, options.threshold, skipped)
    else:
        results = [model.nearest(queries[0], searched, options.count, options.threshold, skipped)]
    skipped.report()
    if not any(results):
        unread = f"{options.query} or every image in {options.gallery}" if many else options.gallery
        raise UserError(f"Every image in {unread} is unreadable: see the reasons above, and pass other images.")
    matches = {
        query: [match for match in nearest if match.image.resolve() != query.resolve()][: options.count]
        for query, nearest in zip(queries, results, strict=True)
    }
    limit = model.distance(options.threshold)
    if options.json:
        listed = [
            {"query": str(query), "matches": [_plain(match) for match in nearest]} for query, nearest in matches.items()
        ]
        about = {
            "threshold": limit,
            "searched": len(searched) - len(skipped.lines),
            "skipped": others + len(skipped.lines),
            "calibration": calibration(model, options.threshold),
        }
        print_json({"queries": listed, **about} if many else {"matches": listed[0]["matches"], **about})
    else:
        for query, nearest in matches.items():
            _print(model, options.threshold, limit, nearest, str(query) if many else None)
    return YES if limit is None or any(match.accepted for nearest in matches.values() for match in nearest) else NO


def _plain(match: "Match") -> dict[str, Any]:
    return {"path": str(match.image), "distance": match.distance, "accepted": match.accepted}


def _print(
    model: "Model", threshold: str | float | None, limit: float | None, matches: list["Match"], query: str | None
) -> None:
    if query is not None:
        print(query)
    if limit is None:
        for rank, match in enumerate(matches, start=1):
            print(f"{rank:>3}  {match.distance:.3f}  {match.image}")
        return
    shown, *distances = digits(limit, *(match.distance for match in matches))
    for rank, (match, distance) in enumerate(zip(matches, distances, strict=True), start=1):
        print(f"{rank:>3}  {distance}  {'accepted' if match.accepted else 'too far '}  {match.image}")
    near, about = sum(bool(match.accepted) for match in matches), about_threshold(model, threshold)
    if near:
        print(f"near enough: {near} of {len(matches)}, distance ≤ {shown} ({about})")
    else:
        nearest = f"the nearest has distance {distances[0]} > {shown}" if matches else "there is no other image"
        print(f"nothing is near enough: {nearest} ({about})")

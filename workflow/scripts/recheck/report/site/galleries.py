"""The retrieval gallery of every row: the same few queries with the nearest neighbours that each row finds."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from recheck.report import results
from recheck.report.figures.gallery import choose_queries, nearest
from recheck.report.inputs import Inputs

QUERIES, NEIGHBOURS = 5, 6
# Side of a thumbnail, which the page shows at half this size in most places.
PIXELS, QUALITY = 72, 80
PACK = ("pack.json", "shapes.npy", "hashes.npy", "pixels.bin")


def make(inputs: Inputs) -> dict[str, Any]:
    """Queries, neighbours of each evaluated method (its first seed, all folds) and thumbnails by image.

    Empty if images or embeddings are not on the disk.
    """
    measured = set(inputs.evaluations[["method", "seed"]].itertuples(index=False, name=None))
    files = {
        method: paths
        for method, paths in results.embedding_files(inputs.paths("embeddings")).items()
        if (method, results.place(paths[0]).seed) in measured
    }
    if not files or not (_has_images(inputs) and inputs.paths("split") and inputs.paths("index")):
        return {}
    images = results.test_images(inputs.split, with_gallery=True)
    labels, queries = inputs.index["label"].to_numpy()[images], inputs.queries
    has_gallery = queries < len(images)
    classes, counts = np.unique(labels[queries:] if has_gallery else labels, return_counts=True)
    answerable = np.isin(labels[:queries], classes if has_gallery else classes[counts > 1])
    chosen = choose_queries(labels[:queries], answerable, QUERIES)
    neighbours: dict[str, list[list[int]]] = {}
    for method, paths in files.items():
        row = inputs.rows[method]
        vectors = results.concatenated_view(paths, row["reduction"], row["normalise"], with_gallery=True)
        if len(vectors) == len(images):
            places = nearest(vectors, queries, NEIGHBOURS, chosen, row.get("curvature"))
            neighbours[method] = [[int(images[place]) for place in line if place >= 0] for line in places]
    shown = dict.fromkeys(
        [*map(int, images[chosen]), *(image for lines in neighbours.values() for n in lines for image in n)]
    )
    names = results.class_names(inputs.index)
    label_of = inputs.index["label"].to_numpy()
    return {
        "queries": [int(images[place]) for place in chosen],
        "neighbours": neighbours,
        "classes": {image: names[int(label_of[image])] for image in shown},
        "labels": {image: int(label_of[image]) for image in shown},
        "thumbnails": {image: thumbnail(np.asarray(inputs.pack.image(image))) for image in shown},
    }


def _has_images(inputs: Inputs) -> bool:
    folders = [Path(path).parent for path in inputs.paths("pack")]
    return bool(folders) and all((folders[0] / name).exists() for name in PACK)


def thumbnail(pixels: np.ndarray) -> str:
    """A small JPEG of an image, as a data URI."""
    image = Image.fromarray(pixels).convert("RGB")
    image.thumbnail((PIXELS, PIXELS), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.save(content, format="JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"

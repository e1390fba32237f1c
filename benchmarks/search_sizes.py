"""The size from which a search is worth a GPU: seconds of a search on one CPU core, by the size of the set.

The GPU's side is an assumption (START): no GPU was available. A search on a GPU must first allocate faiss's memory (256
MB on the GPU, 256 MB pinned) and copy the embeddings.
"""

import statistics
import sys
from pathlib import Path

import numpy as np
from retrieval import embeddings
from timing import in_turn, main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))
SIZES, QUICK = (1000, 2000, 4000, 6000, 8000, 12000), (300, 600)
START = 0.5  # seconds that a GPU is assumed to need before its first result


def section(quick: bool) -> str:
    import faiss

    from recheck.evaluation.gpu_search import SMALL
    from recheck.evaluation.search import neighbours

    faiss.omp_set_num_threads(1)
    rows = []
    for images in QUICK if quick else SIZES:
        x, _ = embeddings(images, images // 10)
        gallery = np.roll(x, 1, axis=0)
        functions = {
            "each other": lambda x=x: neighbours(x, 10),
            "a gallery": lambda x=x, gallery=gallery: neighbours(x, 10, gallery),
        }
        seconds = {name: statistics.median(times) for name, times in in_turn(functions, 1 if quick else 5).items()}
        products = images * images * x.shape[1]
        where = "CPU" if products <= SMALL else "GPU"
        rows.append(
            f"| {images:,} | {products:.1e} | {seconds['each other']:.2f} | {seconds['a gallery']:.2f} | {where} |"
        )
    lines = [
        "## Searches that are too small for a GPU",
        "",
        f"Ten neighbours of every image, 512 dimensions, one thread. Up to {SMALL:.0e} products (images × images × "
        "dimensions) a run on a GPU searches on the CPU. The limit is where one core takes about as long as a GPU "
        f"needs to start a search. That time, {START} s, is an assumption: no GPU was available.",
        "",
        "| images | products | seconds, images search each other | seconds, a gallery of this size | searched on |",
        "|---:|---:|---:|---:|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(section, __doc__)

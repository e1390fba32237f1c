"""One training step and one search on one device, in a process of its own: ``python -m recheck.doctor.trial``.

Reads what to try as JSON, writes the result as one line of JSON. A broken driver may end or hang this process, but not
the doctor.
"""

import json
import sys
import time
from typing import Any

import numpy as np

from recheck import circumstances
from recheck.errors import UserError

ROWS, DIMENSIONS, NEIGHBOURS = 3000, 64, 10


def tried(given: dict[str, Any]) -> dict[str, Any]:
    """The device, the seconds that a step and a search took, and whether the search agrees with the CPU."""
    import torch

    from recheck.data.few import noise
    from recheck.training.device import choose_device
    from recheck.training.seeding import make_deterministic
    from recheck.training.tryout import try_row

    torch.set_num_threads(given["threads"])
    make_deterministic(True)
    device = choose_device(given["device"])
    started = time.perf_counter()
    try_row(given["configuration"], noise(given["resize"]), device)
    step = time.perf_counter() - started
    names = {"cuda": torch.cuda.get_device_name, "mps": lambda device: "GPU of this Mac", "cpu": lambda device: "CPU"}
    name = names[device.type](device)
    return {"name": name, "cuda": torch.version.cuda, "device": device.type, "step": step, **searched(device.type)}


def searched(device: str) -> dict[str, Any]:
    """Seconds of a search on the device, the device that was used, and whether the result agrees with the CPU's."""
    import faiss

    from recheck.evaluation.search import Search

    gallery = np.random.default_rng(0).normal(size=(ROWS, DIMENSIONS)).astype(np.float32)
    rows = np.arange(ROWS)
    search = Search(gallery, "cuda" if device == "cuda" and faiss.get_num_gpus() else "cpu")
    started = time.perf_counter()
    nearest = search.nearest(None, NEIGHBOURS, rows)
    seconds = time.perf_counter() - started
    agrees = search.device == "cpu" or np.array_equal(nearest, Search(gallery, "cpu").nearest(None, NEIGHBOURS, rows))
    return {"search": seconds, "searched_on": search.device, "agrees": bool(agrees)}


def main() -> None:
    given = json.load(sys.stdin)
    try:
        result = tried(given)
    except UserError as error:
        result = {"error": str(error)}
    except Exception as error:
        failure = f"the training step failed ({type(error).__name__}: {error})"
        result = {"error": circumstances.sentence(error) or failure}
    print(f"\n{json.dumps(result)}", flush=True)


if __name__ == "__main__":
    main()

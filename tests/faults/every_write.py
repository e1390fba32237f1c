"""Write each kind of file of the workflow to the small disk ./disk while it is full, and while it is read-only.

test_full_disk.py runs this file in a process with its own mounts. It prints a JSON object: the message of each kind of
file, and what is wrong with the files left behind.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from recheck.data.folder import parse_folder
from recheck.data.index import write_index
from recheck.data.packed import pack
from recheck.data.released import _take as take_released
from recheck.data.sources import fetch
from recheck.errors import UserError
from recheck.evaluation.embeddings import write_embeddings
from recheck.files import write_json, write_text
from recheck.models.embedding import save_model
from recheck.report import style
from recheck.training import toy
from recheck.training.checkpoint import StateFile
from recheck.training.history import write_history
from support.datasets.glyphs import make_glyphs

DISK, SIZE = Path("disk"), 1 << 20
torch.set_num_threads(1)
random = np.random.default_rng(0)
noise = random.random((400, 500), dtype=np.float32)
index = parse_folder({"name": "glyphs"}, Path(), make_glyphs(Path("glyphs"), 2, 2))
large = index.loc[index.index.repeat(9000)].assign(path=lambda rows: [f"{n}.png" for n in range(len(rows))])
Image.fromarray(random.integers(0, 256, (500, 500, 3), dtype=np.uint8)).save("glyphs/A/large.png")
Path("dropped.pth").write_bytes(random.bytes(800_000))
spec = {"backbone": {"name": "x"}, "head": {"class": "Linear", "dim": 2}}
page = "<p>x</p>" * 100_000


def figure(folder: Path) -> None:
    with style.styled() as plt:
        drawn, axis = plt.subplots()
        axis.imshow(noise[:150, :200])
        style.save(drawn, folder / "a.png", folder / "a.svg")


def packing(folder: Path) -> None:
    made = parse_folder({"name": "glyphs"}, Path(), Path("glyphs"))
    pack(made, "glyphs", None, folder / "packed", index_sha256="x")


def dropped(folder: Path) -> None:
    fetch({"path": "dropped.pth", "unverified": True, "from": []}, folder / "file.bin", drop=Path())


WRITES = {
    "copy": dropped,
    "released": lambda folder: take_released(Path("dropped.pth"), "dropped.pth", folder / "trunk_best1.pth"),
    "index": lambda folder: write_index(folder / "images.csv", large),
    "pack": packing,
    "split": lambda folder: write_json(folder / "split.json", {"folds": [{"train": list(range(50_000))}]}),
    "state": lambda folder: StateFile(folder, "a").save({"tensor": torch.from_numpy(noise)}),
    "model": lambda folder: save_model(folder / "model.safetensors", {"a": torch.from_numpy(noise)}, spec, {}),
    "history": lambda folder: write_history(
        folder / "history.csv", [{"epoch": n, "loss": n / 7} for n in range(40_000)]
    ),
    "embeddings": lambda folder: write_embeddings(folder / "embeddings.safetensors", {"test": noise}),
    "evaluation": lambda folder: write_json(folder / "separated.json", {"values": noise[:40].tolist()}),
    "table": lambda folder: write_text(folder / "table.md", page),
    "figure": figure,
    "page": lambda folder: write_text(folder / "index.html", page),
    "points": lambda folder: toy.write(folder / "a.npz", {"data": noise}),
}


def left(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def attempt(write, folder: Path) -> str:
    try:
        write(folder)
    except UserError as error:
        return str(error)
    except Exception as error:
        return f"Unexpected {type(error).__name__}: {error}"
    return "written"


def remount(options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", "disk"], check=True)


report = {}
for kind, write in WRITES.items():
    folder = DISK / kind
    folder.mkdir()
    wrong = []
    ballast = DISK / "ballast"
    ballast.write_bytes(bytes(SIZE - (200 << 10)))
    full = attempt(write, folder)
    at_first = left(folder)
    ballast.unlink()
    if (then := attempt(write, folder)) != "written":
        wrong.append(f"with space again: {then}")
    whole = left(folder)
    if half := [name for name, content in at_first.items() if whole.get(name) != content]:
        wrong.append(f"half-made files were left by a full disk: {half}")
    remount("ro")
    read_only = attempt(write, folder)
    remount("rw")
    if left(folder) != whole:
        wrong.append("a read-only disk was changed")
    ballast.write_bytes(bytes(max(0, SIZE - sum(map(len, whole.values())) - (220 << 10))))
    attempt(write, folder)
    changed = {name for name, content in left(folder).items() if whole.get(name) != content}
    if kind == "state":
        changed -= {"previous.bin"}
    if changed or set(whole) - set(left(folder)) - ({"state.bin"} if kind == "state" else set()):
        wrong.append(f"the old file is gone or changed: {sorted(left(folder))}")
    ballast.unlink()
    for name in left(folder):
        (folder / name).unlink()
    report[kind] = {"full": full, "read_only": read_only, "wrong": wrong}
print(json.dumps(report))
sys.exit()

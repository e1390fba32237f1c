"""The emoji dataset: one class per emoji, one image per designer's drawing of it.

Twelve icon sets draw the same emoji independently, under the same names. The classes are the names in the set ``noto``
(the most complete set, with categories), and an image is one set's drawing of a class, so a class has at most one image
per set. Whatever would make the task ambiguous is removed, in this order:

1. hidden icons, and icons whose name ends like a skin-tone variant (``SKIN_TONE``). Only the name is checked, so
   ``police-car-light`` and the two ``…-traffic-light`` icons are removed too;
2. drawings that a set uses for two classes through an alias;
3. classes with fewer than ``min_images`` drawings;
4. drawings with the same pixels in two of the remaining classes, first within a set, then across sets;
5. classes that now have fewer than ``min_images`` drawings.
"""

import hashlib
import io
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Hashable
from pathlib import Path

import pandas as pd
import resvg_py

from recheck.data.images import opened
from recheck.data.parallel import ordered_map
from recheck.errors import UserError
from recheck.files import disk_errors, read_json

SKIN_TONE = re.compile(r"skin-tone|-tone\d$|-(light|medium|dark)$")
UNHYPHENATED = {"fxemoji"}
NAMING_SET = "noto"

Drawings = dict[str, dict[str, str]]
"""Class name → set → name of the icon in that set."""


def parse(dataset: dict, downloads: Path, images: Path, workers: int = 1) -> pd.DataFrame:
    """Draw all emoji into ``images/<class>/<set>.png`` and return the index."""
    options = dataset["options"]
    sets = _read_sets(options["sets"], Path(downloads))
    categories = _categories(Path(downloads) / NAMING_SET / "metadata.json")

    drawings = enough(one_class_each(candidates(sets), lambda in_set, icon: (in_set, icon)), options["min_images"])
    jobs = [(in_set, icon, _svg(sets[in_set], icon, options["size"])) for in_set, icon in _used(drawings)]
    rendered = ordered_map(_render, jobs, workers, total=len(jobs), description="Drawing emoji")
    png = {(in_set, icon): data for (in_set, icon, _), data in zip(jobs, rendered, strict=True)}
    pixels = {key: _pixels(data) for key, data in png.items()}
    drawings = one_class_each(drawings, lambda in_set, icon: (in_set, pixels[in_set, icon]))
    drawings = one_class_each(drawings, lambda in_set, icon: pixels[in_set, icon])
    drawings = enough(drawings, options["min_images"])
    return _write(drawings, png, categories, Path(images))


def candidates(sets: dict[str, dict]) -> Drawings:
    """All drawings of all classes, matched by name."""
    icons = sets[NAMING_SET]["icons"]
    names = sorted(name for name, icon in icons.items() if not icon.get("hidden") and not SKIN_TONE.search(name))
    return {
        name: {in_set: icon for in_set in sets if (icon := find(sets[in_set], in_set, name)) is not None}
        for name in names
    }


def find(icon_set: dict, in_set: str, name: str) -> str | None:
    """The name of a set's icon for a class, following aliases that do not rotate or mirror the drawing."""
    icon = name.replace("-", "") if in_set in UNHYPHENATED else name
    aliases = icon_set.get("aliases", {})
    visited = set()
    while icon not in icon_set["icons"]:
        if icon in visited or set(aliases.get(icon, {})) != {"parent"}:
            return None
        visited.add(icon)
        icon = aliases[icon]["parent"]
    return None if icon_set["icons"][icon].get("hidden") else icon


def one_class_each(drawings: Drawings, identity: Callable[[str, str], Hashable]) -> Drawings:
    """The drawings whose identity occurs in only one class."""
    classes = defaultdict(set)
    for name, icons in drawings.items():
        for in_set, icon in icons.items():
            classes[identity(in_set, icon)].add(name)
    return {
        name: {in_set: icon for in_set, icon in icons.items() if len(classes[identity(in_set, icon)]) == 1}
        for name, icons in drawings.items()
    }


def enough(drawings: Drawings, least: int) -> Drawings:
    return {name: icons for name, icons in drawings.items() if len(icons) >= least}


def _read_sets(names: list[str], downloads: Path) -> dict[str, dict]:
    if NAMING_SET not in names:
        raise UserError(
            f"'options.sets' of the emoji dataset must include '{NAMING_SET}', which names the classes, found "
            f"{', '.join(names) or 'none'}."
        )
    return {name: read_json(downloads / name / "icons.json") for name in sorted(names)}


def _categories(path: Path) -> dict[str, str]:
    return {icon: category for category, icons in read_json(path)["categories"].items() for icon in icons}


def _used(drawings: Drawings) -> list[tuple[str, str]]:
    return [(in_set, icon) for icons in drawings.values() for in_set, icon in icons.items()]


def _svg(icon_set: dict, icon: str, size: int) -> str:
    """An icon as a stand-alone SVG; a drawing that is not square is centred, never stretched."""
    drawing = {"left": 0, "top": 0, "width": 16, "height": 16, **icon_set, **icon_set["icons"][icon]}
    box = " ".join(str(drawing[side]) for side in ("left", "top", "width", "height"))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{box}" width="{size}" height="{size}">{drawing["body"]}</svg>'
    )


def _render(job: tuple[str, str, str]) -> bytes:
    in_set, icon, svg = job
    try:
        data = resvg_py.svg_to_bytes(svg_string=svg, background="white", skip_system_fonts=True)
    except ValueError as error:
        raise UserError(
            f"Icon '{icon}' of set '{in_set}' cannot be drawn ({error}): delete the set's icons.json and run again."
        ) from None
    buffer = io.BytesIO()
    opened(io.BytesIO(data), ("PNG",)).convert("RGB").save(buffer, "PNG", optimize=False, compress_level=6)
    return buffer.getvalue()


def _pixels(png: bytes) -> str:
    return hashlib.sha256(opened(io.BytesIO(png), ("PNG",)).tobytes()).hexdigest()


def _write(
    drawings: Drawings, png: dict[tuple[str, str], bytes], categories: dict[str, str], images: Path
) -> pd.DataFrame:
    """Write the images into a temporary folder, rename it when complete, and return the index."""
    rows = []
    with disk_errors(images):
        images.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=images.parent, prefix=f".{images.name}."))
        try:
            folder = temporary / "images"
            for label, name in enumerate(sorted(drawings)):
                (folder / name).mkdir(parents=True)
                for in_set in sorted(drawings[name]):
                    path = f"{name}/{in_set}.png"
                    (folder / path).write_bytes(png[in_set, drawings[name][in_set]])
                    rows.append((path, label, name, categories.get(name, ""), ""))
            if images.exists():
                images.rename(temporary / "old")
            folder.rename(images)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return pd.DataFrame(rows, columns=["path", "label", "class_name", "super_label", "role"])

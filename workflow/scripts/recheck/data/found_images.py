"""Images in a folder, found by the suffixes of their names."""

from pathlib import Path

from recheck.errors import UserError
from recheck.files import check_name, walk

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}


def images_below(folder: str | Path) -> tuple[list[Path], int]:
    """The sorted paths of all images in a folder and its subfolders, and the number of other files.

    Hidden entries are ignored, and links to folders are not followed.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, but a folder of images is needed: pass the folder that contains it.")
    if not folder.is_dir():
        raise UserError(f"Folder {folder} does not exist: check the path.")
    images, others = [], 0
    for path in (Path(entry.path) for entry in walk(folder, skip=lambda name: name[0] == ".")):
        if is_image(path):
            check_name(path)
            images.append(path)
        elif not path.is_dir():
            others += 1
    return sorted(images), others


def is_image(entry: Path) -> bool:
    return entry.suffix.lower() in SUFFIXES and not entry.name.startswith(".") and entry.is_file()

"""A small real retrieval dataset: a class is a character, an image is the character in one typeface.

The typefaces are those that matplotlib installs, so nothing is downloaded.
"""

import string
from pathlib import Path

from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
)


def draw(character: str, font: str, size: int) -> Image.Image:
    path = Path(get_data_path(), "fonts", "ttf", f"{font}.ttf")
    image = Image.new("RGB", (size, size), "white")
    typeface = ImageFont.truetype(str(path), int(size * 0.8))
    ImageDraw.Draw(image).text((size / 2, size / 2), character, "black", typeface, anchor="mm")
    return image


def make_glyphs(folder: Path, classes: int = 16, per_class: int = 6, size: int = 32) -> Path:
    """Class folders of PNG files below ``folder``."""
    for character in string.ascii_uppercase[:classes]:
        (folder / character).mkdir(parents=True, exist_ok=True)
        for font in FONTS[:per_class]:
            draw(character, font, size).save(folder / character / f"{font}.png")
    return folder

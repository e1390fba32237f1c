"""The limits in docs/datasets.md are those of the code."""

import re

import pytest
from PIL import Image

from recheck.data import archives, download, isolated, sources, streams, tars, zips
from recheck.data.images import FORMATS
from recheck.data.patience import CHUNK, NOISE, Patience
from recheck.files import MOST_LEVELS
from support.project import ROOT

TEXT = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
SECTION = " ".join(TEXT.partition("## Hostile and unlucky input")[2].partition("\n## ")[0].split())
ROWS = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", TEXT, re.M))


def size(number):
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number % unit == 0:
            return f"{number // unit:.0f} {name}"
    return f"{number:,} bytes"


BOUNDS = Patience()
LIMITS = {
    "attempts per source, with or without progress": f"{BOUNDS.attempts}",
    f"attempts in a row without {size(CHUNK)} of new bytes": (
        f"{len(BOUNDS.waits) + 1}, with waits of {', '.join(map(str, BOUNDS.waits[:-1]))} and {BOUNDS.waits[-1]} s"
    ),
    "wait for the next byte": f"{BOUNDS.timeout} s",
    f"slowest transfer, measured over {BOUNDS.timeout} s": f"{BOUNDS.slowest:,} bytes per second",
    "time of the whole download": (f"{BOUNDS.grace // 3600} hour, plus its size at {size(BOUNDS.average)} per second"),
    "longest `Retry-After` that is obeyed": f"{BOUNDS.longest} s",
    "bytes that are not part of the file (headers, interim responses, bodies of redirects)": size(NOISE),
    "size, if neither the YAML nor the server gives it": size(download.LARGEST_UNKNOWN),
    "`npm pack`, `pip download`": f"{sources.PACKAGE_SECONDS} s",
    "unpacked size, in which links count as copies": (
        f"`unpacked_size` of the file, by default {archives.FACTOR} times its size, at least {size(archives.LEAST)}"
    ),
    "members": f"{archives.MOST_MEMBERS:,}",
    "characters of all names together": f"{archives.LONGEST_NAMES:,}",
    "nested folders": f"{MOST_LEVELS}",
    "headers of one tar member": size(tars.LARGEST_HEADER),
    "digits in a row in a tar header": f"{tars.LONGEST_NUMBER}",
    "bytes after the end mark of a tar archive": size(tars.MARGIN),
    "dictionary of an xz or LZMA stream": size(streams.LARGEST_DICTIONARY),
}


@pytest.mark.parametrize("row", LIMITS)
def test_the_table_has_the_limits_of_the_code(row):
    assert ROWS[row].strip() == LIMITS[row]


def test_the_text_has_the_lists_of_the_code():
    def listed(names):
        return f"{', '.join(names[:-1])} or {names[-1]}"

    assert f"opened only as {listed(FORMATS)}, whatever" in SECTION
    assert f"that are not {listed(list(zips.METHODS.values()))}, or" in SECTION
    assert f"with at most {size(isolated.MEMORY)} of memory" in SECTION
    assert f"folders more than {MOST_LEVELS} levels deep" in SECTION
    assert f"more than {2 * Image.MAX_IMAGE_PIXELS / 1e6:.0f} million pixels" in SECTION

"""Copy the small files of finished studies into docs/results/<study>: tables, comparison, chosen values and figures.

    python workflow/scripts/collect.py grand_emoji --backbones grand_emoji_lite2 grand_emoji_mobilenet

The same results give the same files.
"""

import argparse
import sys
from pathlib import Path

from recheck.errors import UserError
from recheck.report.collection import collect

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study")
    parser.add_argument(
        "--backbones", nargs="*", default=[], metavar="STUDY", help="studies with the same rows on other backbones"
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--target", type=Path, help="default: docs/results/<study>")
    chosen = parser.parse_args()
    try:
        files = collect(
            chosen.results, chosen.study, chosen.backbones, chosen.target or Path("docs/results", chosen.study)
        )
    except UserError as error:
        sys.exit(f"Error: {error}")
    print(*files, sep="\n")

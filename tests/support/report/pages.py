"""The pages of the manual and their code blocks."""

import re
import textwrap
from dataclasses import dataclass
from functools import cache

from support.project import ROOT

PAGES = tuple(
    str(path.relative_to(ROOT))
    for path in sorted(
        [
            *(ROOT / name for name in ("README.md", "config/README.md", "resources/published/README.md")),
            *ROOT.glob("CONTRIBUTING.md"),
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "docs/results").rglob("README.md"),
        ]
    )
)
FENCED = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# the file that a block shows: `# my_losses.py` or `# config/studies/mine.yaml`
FILE = re.compile(r"# ([\w./-]+\.(?:py|yaml))(?:,[^\n]*)?\n")


@dataclass(frozen=True)
class Block:
    page: str
    heading: str
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that the block's first comment names."""
        match = FILE.match(self.text)
        return match and match[1]

    @property
    def body(self) -> str:
        """The text without the comment that names a file."""
        return FILE.sub("", self.text, count=1)


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """The code blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    collected = []
    for match in FENCED.finditer(text):
        before = HEADING.findall(FENCED.sub("", text[: match.start()]))
        collected.append(Block(page, before[-1], match["language"], textwrap.dedent(match["text"])))
    return tuple(collected)


def all_blocks(language: str) -> list[Block]:
    """The code blocks of all pages in a language."""
    return [block for page in PAGES for block in blocks(page) if block.language == language]


def files(page: str) -> dict[str, str]:
    """The files that a page shows: name → content."""
    return {block.file: block.body for block in blocks(page) if block.file}

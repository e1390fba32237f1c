"""The README's example of a search, small enough for tests."""

import re

from support.project import ROOT, Project

README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.split("## Tune your loss")[1].split("\n## ")[0]
ROWS = ("triplet", "soft_margin")
SEARCH = "results/my_study/glyphs/soft_margin"


def write_study(project: Project) -> None:
    """The README's loss and its ten lines, on letters, with a smaller budget."""
    (code,) = re.findall(r"^```python\n(# my_losses\.py\n.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
    for old, new in (("base: quickstart", "base: letters"), ("gp, rounds: 10, trials: 5", "tpe, rounds: 2, trials: 1")):
        assert old in text
        text = text.replace(old, new)
    assert len(text.splitlines()) <= 1 + 11
    project.write("my_losses.py", code)
    project.write("config/studies/my_study.yaml", text)

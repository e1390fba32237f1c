"""The manual's example of a search, small enough for tests."""

from support.project import Project
from support.report import pages

ROWS = ("triplet", "soft_margin")
SEARCH = "results/my_study/glyphs/soft_margin"


def write_study(project: Project) -> None:
    """The manual's loss and its ten lines, on letters, with a smaller budget."""
    text = pages.files("docs/tuning.md")["config/studies/my_study.yaml"]
    for old, new in (("base: quickstart", "base: letters"), ("gp, rounds: 10, trials: 5", "tpe, rounds: 2, trials: 1")):
        assert old in text
        text = text.replace(old, new)
    assert len(text.splitlines()) <= 11
    project.write("my_losses.py", pages.files("docs/own_loss.md")["my_losses.py"])
    project.write("config/studies/my_study.yaml", text)

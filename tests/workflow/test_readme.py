"""The everyday commands of the manual work, and the names in it exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from recheck.cli.main import parser
from support.project import ROOT
from support.project.studies import shipped
from support.report import pages

README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_TABLE = (ROOT / "docs/first_table.md").read_text(encoding="utf-8")
COMMANDS = [
    line.split("#")[0].strip()
    for page in ("README.md", "docs/first_table.md", "docs/models.md")
    for block in pages.blocks(page)
    if block.language == "bash"
    for line in block.text.splitlines()
    if line.strip()
]
CHECK = "pytest tests/unit tests/golden tests/repository -m 'not slow'"
SNAKEMAKE = [command for command in COMMANDS if command.startswith("snakemake") and "--report" not in command]


def test_the_readme_has_its_two_commands_and_ci_runs_the_second():
    assert COMMANDS[:2] == ["make quickstart", "make test"]
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "runs"), [("quickstart", "snakemake --cores all"), ("test", "pytest"), ("check", CHECK)]
)
def test_make_runs_what_the_readme_says(target, runs):
    plan = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert runs in plan.stdout.splitlines()


@pytest.mark.parametrize("command", SNAKEMAKE)
def test_snakemake_commands_plan_the_quickstart(fresh, command):
    """Dry runs: the studies, methods and keys that a command names exist."""
    fresh.add_shipped_studies().edit("config/config.yaml", "study: letters", "study: quickstart")
    arguments = shlex.split(command)[1:]
    fewer = ["--config", "seeds=[0]"] if arguments[-1] == "mlrc" else []  # test_reality_check.py plans all
    output = fresh.succeed(*arguments, *fewer, *([] if "--dry-run" in arguments else ["--dry-run"]))
    if arguments[-1].endswith(("_published", "_so_far", "_cost")):
        assert re.search(r"^(page|cost) +1$", output, re.MULTILINE), output
        assert not re.search(r"^(fetch|train) ", output, re.MULTILINE), output
        return
    if arguments[-1] == "data":
        datasets = len(list(fresh.path("config/datasets").glob("*.yaml")))
        assert re.search(rf"^index +{datasets}$", output, re.MULTILINE), output
        assert not re.search(r"^train ", output, re.MULTILINE), output
        return
    if arguments[-1] == "site":
        assert re.search(r"^site +\d+$", output, re.MULTILINE), output
        assert not re.search(r"^(fetch|train) ", output, re.MULTILINE), output
        return
    if {"try", "doctor"} & set(arguments):
        assert re.search(r"^total +1$", output, re.MULTILINE), output
        return
    trained = {"methods": 4, "seeds": 63, "mlrc": 3 * (18 * 4 + 1)}
    expected = next((count for key, count in trained.items() if f"{key}=" in command or arguments[-1] == key), 21)
    assert re.search(rf"^train +{expected}$", output, re.MULTILINE), output


@pytest.mark.parametrize("program", ["tensorboard", "pytest", "snakemake"])
def test_other_programs_are_installed(program):
    assert any(command.startswith(program) for command in COMMANDS)
    assert Path(sys.executable).with_name(program).exists()


def test_recheck_understands_the_commands_and_their_rows_exist():
    """Only the arguments are parsed here: test_calibrated.py has a model and tests the output."""
    commands = [shlex.split(command)[1:] for command in COMMANDS if command.startswith("recheck ")]
    assert {command[0] for command in commands} == {"same", "search", "embed", "export", "compare"}
    for command in commands:
        _, study, _, method, _ = Path(parser().parse_args(command).run_folder).parts
        assert method in shipped(study).rows


def test_every_study_is_in_the_manual_and_every_path_of_the_readme_exists():
    studies = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    for study in (ROOT / "config/studies").glob("*.yaml"):
        assert f"`{study.stem}`" in studies
    named = re.findall(r"`((?:config|docs|workflow)/[\w./-]+)`", README)
    linked = re.findall(r"\]\(([^):]+)\)", README)
    assert named and len(linked) > 20
    for path in named:
        assert (ROOT / path).exists(), path
    for path in linked:
        assert (ROOT / path.partition("#")[0]).is_file(), path


def test_the_manuals_table_has_the_rows_of_the_quickstart():
    shown = FIRST_TABLE.split("<!-- quickstart table -->")[1].split("<!-- /quickstart table -->")[0]
    rows = re.findall(r"^\| ([^|]+?) +\|", shown, re.MULTILINE)[2:]
    assert rows == [row.label for row in shipped("quickstart").rows.values()]

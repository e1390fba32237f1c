"""Every code block of the manual works: Python runs, YAML is valid, commands name what exists.

`recheck` commands run, on models that are not trained. Other commands are not run here, because most of them train.
Bash parses each block, Snakemake's own parser reads the options of each `snakemake` command, and its targets and config
keys must exist. Other tests run them: test_readme.py plans the everyday commands, test_extending.py, test_extend.py and
test_tuning.py run the templates of the manual.
"""

import re
import runpy
import shlex
import subprocess
from functools import cache
from itertools import dropwhile, groupby
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from PIL import Image
from snakemake.cli import get_argument_parser

from recheck.cli.main import main
from recheck.cli.main import parser as recheck_parser
from recheck.study.yaml import read_yaml
from support.project import ROOT
from support.project.studies import FILES, shipped
from support.project.trained import write_fold, write_run
from support.report import pages

SCHEMAS = {path.name.split(".")[0]: read_yaml(path) for path in (ROOT / "workflow/schemas").glob("*.schema.yaml")}
LANGUAGES = {"bash", "python", "yaml", "text"}
# Programs that are not part of Recheck: bash checks the syntax of their commands.
FOREIGN = {
    *(
        "cd",
        "conda",
        "cp",
        "do",
        "done",
        "for",
        "git",
        "grep",
        "mkdir",
        "nvidia-smi",
        "scancel",
        "sed",
        "sha256sum",
        "source",
    ),
    *("squeue", "tail", "tensorboard", "tmux", "apptainer", "docker", "pip"),
}
RULES = {"data", "site", "try", "doctor"}
SCOPE = re.compile(r"_(so_far|published|cost)$")
# text in angle brackets stands for something that the user fills in
PLACEHOLDER = re.compile(r"<[^>\n]+>")


def ids(blocks):
    return [pytest.param(block, id=f"{Path(block.page).stem}-{block.heading[:40]}") for block in blocks]


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_block_has_a_language_and_no_table_cell_or_paragraph_is_too_long(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert {block.language for block in pages.blocks(page)} <= LANGUAGES
    assert text.count("```") == 2 * len(pages.blocks(page))
    prose = pages.FENCED.sub("", text)
    cells = [cell for line in prose.splitlines() if line.startswith("|") for cell in re.split(r"(?<!\\)\|", line)]
    assert [cell for cell in cells if len(cell.strip()) > 200] == []
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|\|) )", re.sub(r"<!--.*?-->", "", prose))
    assert [paragraph for paragraph in paragraphs if len(paragraph.strip().splitlines()) > 5] == []


# --- Python ---------------------------------------------------------------------------------------------------------


def expected_output(code: str) -> list[str]:
    """What the comments after `print(…)` say: on the same line, or on the lines at the end of the block."""
    behind = [line.rpartition("  # ")[2] for line in code.splitlines() if "print(" in line and "  # " in line]
    last = re.search(r"(?:^# .*\n)+\Z", code, re.MULTILINE)
    return behind + [line.removeprefix("# ") for line in (last[0].splitlines() if last else [])]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the runs and images that the examples name; the models are not trained."""
    folder = tmp_path_factory.mktemp("trained")
    spec = {"backbone": {"name": "timm/test_resnet", "weights": "none"}, "head": {"class": "Linear", "dim": 16}}
    write_run(folder / "results/calibration_tiny/emoji/circle_loss/seed0", spec)
    for method in ("triplet", "arcface"):
        write_fold(folder / f"results/quickstart/emoji/{method}/seed0/fold0", spec)
    (folder / "photos").mkdir()
    for number, name in enumerate(("one.png", "other.png", "photos/a.png")):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 40, 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder


@pytest.mark.parametrize("block", ids(pages.all_blocks("python")))
def test_python_runs_and_prints_what_its_comments_say(block, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(trained if "recheck.load(" in block.text else ROOT)
    (tmp_path / "example.py").write_text(block.text, encoding="utf-8")
    runpy.run_path(str(tmp_path / "example.py"))
    assert capsys.readouterr().out.splitlines() == expected_output(block.text)


# --- YAML -----------------------------------------------------------------------------------------------------------


def without_required(schema):
    """A schema that accepts a part of a file."""
    if isinstance(schema, dict):
        return {key: without_required(value) for key, value in schema.items() if key not in ("required", "allOf")}
    return [without_required(value) for value in schema] if isinstance(schema, list) else schema


STUDY = without_required(SCHEMAS["study"])
SETTINGS = {"$ref": "#/$defs/settings", "unevaluatedProperties": False, "$defs": STUDY["$defs"]}
OTHERS = [{**SCHEMAS[name], "required": []} for name in ("dataset", "gpus", "published")]


def fits(value) -> bool:
    """Whether all keys and values of a mapping belong to one kind of file."""
    return any(Draft202012Validator(schema).is_valid(value) for schema in (SETTINGS, STUDY, *OTHERS))


FRAGMENTS = [block for block in pages.all_blocks("yaml") if not block.file]


@pytest.mark.parametrize("block", ids(FRAGMENTS))
def test_a_fragment_of_yaml_fits_a_schema(block, tmp_path):
    """Whole files are read by test_config_readme.py and test_extending.py."""
    (tmp_path / "fragment.yaml").write_text(PLACEHOLDER.sub("placeholder", block.text), encoding="utf-8")
    value = read_yaml(tmp_path / "fragment.yaml")
    assert fits(value), f"{block.page}: no schema has all of {sorted(value)}"


@pytest.mark.parametrize(
    ("key", "wrong", "value"),
    [("precision", "precison", "tf32"), ("protocol", "protocoll", {}), ("gpu", "gpu", {"x": 1})],
)
def test_a_fragment_with_a_wrong_key_fits_no_schema(key, wrong, value):
    assert fits({key: value}) or key == wrong
    assert not fits({wrong: value})


# --- Bash -----------------------------------------------------------------------------------------------------------


def commands(text: str):
    """The simple commands of a block, as lists of words, without comments and variables before them."""
    for line in PLACEHOLDER.sub("placeholder", text.replace("\\\n", " ")).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split, lexer.commenters = True, "#"
        for ends, words in groupby(lexer, lambda word: set(word) <= set(";&|")):
            words = list(dropwhile(re.compile(r"[A-Z_]+=").match, words))
            if words and not ends:
                yield words


def check(words: list[str], page: str, mine: set[str]) -> None:
    """Assert that a command names only what exists."""
    program, *arguments = words
    if program in ("timeout", "srun"):
        start = next(index for index, word in enumerate(arguments) if not word.startswith("-") and not word.isdigit())
        check(arguments[start:], page, mine)
    elif program == "snakemake":
        check_snakemake(arguments, page, mine)
    elif program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in arguments if "=" not in word} <= set(targets), (page, words)
    elif program == "recheck":
        _, study, dataset, row, *_ = Path(recheck_parser().parse_args(arguments).run_folder).parts
        assert dataset in shipped(study).datasets and row in shipped(study).rows, (page, words)
    elif program in ("python", "pytest"):
        named = [word for word in arguments if word.endswith(".py") or word.startswith("tests/")]
        assert all((ROOT / name).exists() for name in named), (page, words)
    else:
        assert program in FOREIGN, f"{page}: unknown program in {shlex.join(words)}"


@cache
def parser():
    return get_argument_parser()


def check_snakemake(arguments: list[str], page: str, mine: set[str]) -> None:
    options = parser().parse_args(arguments)
    for name in options.config or []:
        assert name.partition("=")[0] in SCHEMAS["config"]["properties"], (page, arguments)
    for target in options.targets:
        known = {target, SCOPE.sub("", target)} & {*FILES.studies, *RULES, *mine, "placeholder", "contextual_toy"}
        assert known or target.startswith(("results/", "resources/")), f"{page}: no target '{target}'"


@pytest.mark.parametrize("block", ids(pages.all_blocks("bash")))
def test_commands_name_what_exists(block):
    text = PLACEHOLDER.sub("placeholder", block.text)
    parsed = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    assert parsed.returncode == 0, f"{block.page}: {parsed.stderr}"
    mine = {Path(name).stem for name in pages.files(block.page) if name.startswith("config/studies/")}
    for words in commands(block.text):
        check(words, block.page, mine)


RECHECK = {
    shlex.join(words): words[1:]
    for block in pages.all_blocks("bash")
    for words in commands(block.text)
    if words[0] == "recheck"
}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", RECHECK.values(), ids=RECHECK)
def test_recheck_commands_run(arguments, trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    codes = (0, 1) if arguments[0] in ("same", "search") else (0,)
    assert main(arguments) in codes, capsys.readouterr().err


@pytest.mark.parametrize("page", pages.PAGES)
def test_commands_in_sentences_name_what_exists(page):
    prose = pages.FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    mine = {"my_study", "mine"}  # studies of the examples
    for span in re.findall(r"`((?:snakemake|make|python|recheck)\s[^`]+)`", prose):
        if "…" not in span:
            for words in commands(" ".join(span.split())):
                check(words, page, mine)


@pytest.mark.parametrize(
    "wrong",
    [
        *("snakemake --cores 1 mlrcc", "snakemake --cores 1 mlrc --config sedes=[0]", "snakemake --core-s 1"),
        *("make tset", "python benchmarks/none.py", "snakemke", "true && python benchmarks/none.py"),
        *("timeout 5 snakemake mlrcc", "X=1 make tset", "recheck sane RUN a.png b.png"),
    ],
)
def test_a_wrong_command_is_found(wrong):
    with pytest.raises((AssertionError, SystemExit)):
        for words in commands(wrong + "\n"):
            check(words, "here", set())

"""The command ``recheck``: output, exit codes, errors of one line, and files that are whole or absent."""

import csv
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import recheck
from recheck import seal
from recheck.api.model import Model, load
from recheck.cli.main import COMMANDS, main
from recheck.files import write_json
from support.project import ROOT, SCRIPTS
from support.project.trained import MEASURED, change, paths_of, with_distances, write_fold, write_run

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run")


@pytest.fixture
def model(run):
    return load(run, own_code=True)


def command(*arguments):
    """Call the command in this process; a new process would import torch again for each of many cases."""
    return main([str(argument) for argument in arguments])


def far_and_near(model, glyphs):
    """A query, the other images by distance, and a threshold between the second and the third."""
    query, *paths = paths_of(glyphs)
    matches = model.nearest(query, paths, len(paths))
    return query, matches, (matches[1].distance + matches[2].distance) / 2


def started(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "recheck", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(SCRIPTS)},
    )


def test_the_command_in_a_separate_process(run, model, glyphs, tmp_path):
    """In any folder, with the user's backbone beside it: yes, no, error."""
    (tmp_path / "support/project").mkdir(parents=True)
    shutil.copy(ROOT / "tests/support/project/small_net.py", tmp_path / "support/project")
    query, matches, limit = far_and_near(model, glyphs)
    with_distances(run, unseen_queries=limit)
    yes = started("same", "run", query, matches[0].image, "--own-code", cwd=tmp_path)
    assert (yes.returncode, yes.stderr) == (0, "")
    assert yes.stdout.startswith("same class: distance 0.") and yes.stdout.count("\n") == 1
    assert yes.stdout.endswith("(threshold of unseen queries: precision 91 %, recall 80 % on 980 queries)\n")
    no = started("same", "run", query, matches[-1].image, "--own-code", cwd=tmp_path)
    assert (no.returncode, no.stderr) == (1, "")
    assert no.stdout.startswith("not the same class: distance 0.")
    error = started("same", "run", query, matches[0].image, cwd=tmp_path)
    assert (error.returncode, error.stdout) == (2, "")
    assert error.stderr.startswith("error: ") and "--own-code" in error.stderr and error.stderr.count("\n") == 1


def test_help_without_a_command_lists_the_commands(tmp_path):
    shown = started("--help", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert all(f"\n    {name} " in shown.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", ["same", "search"])
def test_help_says_what_the_threshold_means(name, capsys):
    with pytest.raises(SystemExit) as raised:
        command(name, "--help")
    assert raised.value.code == 0
    shown = capsys.readouterr().out
    for words in (
        f"recheck {name} results/",
        "calibrated for the nearest image of an index",
        "not measured for arbitrary pairs",
    ):
        assert words in shown


@pytest.mark.parametrize("arguments", [[], ["same"], ["other", "run"], ["search", "run", "a.png", "b", "--count", "x"]])
def test_wrong_use_is_an_error(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        command(*arguments)
    assert raised.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_same_as_json(run, model, glyphs, capsys):
    a, b, *_ = paths_of(glyphs)
    code = command("same", run, a, b, "--own-code", "--json", "--threshold", "seen")
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("calibration") == {"name": "seen_queries", "distance": 0.4, **MEASURED, "queries": 980}
    assert shown == model.same(a, b, "seen")._asdict()
    assert code == (0 if shown["same"] else 1)
    assert command("same", run, a, b, "--own-code", "--json", "--threshold", "2") == 0
    assert json.loads(capsys.readouterr().out)["calibration"] is None


def test_digits_tell_a_distance_from_its_threshold(run, model, glyphs, capsys):
    a, b, *_ = paths_of(glyphs)
    distance = model.same(a, b).distance
    assert command("same", run, a, b, "--own-code", "--threshold", distance - 1e-6) == 1
    left, right = capsys.readouterr().out.split("distance ")[1].split(" (")[0].split(" > ")
    assert float(left) > float(right)
    assert command("same", run, a, b, "--own-code", "--threshold", distance + 1e-6) == 0
    assert "your own threshold" in capsys.readouterr().out
    query, matches, _ = far_and_near(model, glyphs)
    limit = matches[2].distance - 1e-5
    assert command("search", run, query, glyphs, "--own-code", "--threshold", limit) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    shown = float(last.split("≤ ")[1].split()[0])
    assert [float(line.split()[1]) <= shown for line in lines] == ["accepted" in line for line in lines]


def test_nearest_in_a_folder(run, model, glyphs, tmp_path, capsys):
    root = shutil.copytree(glyphs, tmp_path / "photos")
    query, matches, limit = far_and_near(model, root)
    (root / "notes.txt").write_text("text", encoding="utf-8")
    (root / "A" / "text.png").write_text("no picture", encoding="utf-8")
    assert command("search", run, query, root, "--own-code", "--threshold", limit, "--count", 4) == 0
    shown = capsys.readouterr()
    *lines, last = shown.out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert ["accepted" in line for line in lines] == [True, True, False, False]
    assert [line.rsplit("  ", 1)[1] for line in lines] == [str(match.image) for match in matches[:4]]
    assert last.startswith("near enough: 2 of 4, distance ≤")
    assert "skipped 1 file(s) without an image suffix" in shown.err
    assert f"skipped 1 file(s) that cannot be read:\nwarning:   {root / 'A' / 'text.png'}: not an image\n" in shown.err

    assert command("search", run, query, root, "--own-code", "--threshold", limit, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["matches"] == [
        {"path": str(match.image), "distance": match.distance, "accepted": match.distance <= limit}
        for match in matches[:5]
    ]
    assert (listed["searched"], listed["skipped"], listed["threshold"]) == (47, 2, limit)


def test_no_accepted_image_is_reported(run, glyphs, capsys):
    query = paths_of(glyphs)[0]
    for form in ([], ["--json"]):
        assert command("search", run, query, glyphs, "--own-code", "--threshold", "0", *form) == 1
    lines, _ = capsys.readouterr().out.split("{", 1)
    assert lines.splitlines()[-1].startswith("nothing is near enough: the nearest has distance 0.")


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("empty", "There are no images in"),
        ("only_query", "There are no images in"),
        ("text_only", "There are no images in"),
        ("all_broken", "photos is unreadable: see the reasons above, and pass other images."),
        ("no_folder", "does not exist: check the path"),
        ("no_run", "Found no model at"),
        ("broken_query", "cannot be read (not an image): replace it, or leave it out."),
        ("threshold", "Unknown threshold 'sceen'"),
        ("count", "must be a whole number of at least 1, found 0"),
        ("device", "Unknown device 'gpux'"),
    ],
)
def test_errors_are_one_line_with_exit_code_2(run, glyphs, tmp_path, capsys, case, sentence):
    folder = tmp_path / "photos"
    folder.mkdir()
    query, options = folder / "query.png", []
    shutil.copy(paths_of(glyphs)[0], query)
    if case in ("empty", "text_only", "all_broken"):
        query = Path(shutil.move(query, tmp_path))
    if case == "text_only":
        (folder / "notes.txt").write_text("text", encoding="utf-8")
    if case == "all_broken":
        (folder / "a.png").touch()
        (folder / "b.png").touch()
    if case in ("threshold", "count", "device", "broken_query", "no_run"):
        shutil.copy(paths_of(glyphs)[1], folder)
        options = {"threshold": ["--threshold", "sceen"], "count": ["--count", 0], "device": ["--device", "gpux"]}.get(
            case, []
        )
    if case == "broken_query":
        query.write_text("no picture", encoding="utf-8")
    where = tmp_path / "nowhere"
    arguments = [where if case == "no_run" else run, query, where if case == "no_folder" else folder]
    assert command("search", *arguments, "--own-code", *options) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    errors = [line for line in shown.err.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == 1 and errors[0].startswith("error: ") and sentence in errors[0]


def test_an_unexpected_error_does_not_mean_no(run, glyphs, capsys, monkeypatch):
    """Python exits with 1 after an exception, which would mean \"no\"."""
    monkeypatch.setattr(Model, "same", lambda *arguments: 1 / 0)
    a, b, *_ = paths_of(glyphs)
    assert command("same", run, a, b, "--own-code") == 2
    shown = capsys.readouterr().err
    assert "Unexpected ZeroDivisionError: " in shown and "(this is a bug in Recheck: please report it)" in shown


# Embeddings in files


def written(path):
    """Paths and embeddings of a file that `recheck embed` wrote."""
    if path.suffix == ".npy":
        return path.with_suffix(".txt").read_text(encoding="utf-8").splitlines(), np.load(path)
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        assert head == ["path", *(f"e{number}" for number in range(len(head) - 1))]
        return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float32)
    seal.check(path)
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["recheck"])["paths"], file.get_tensor("embeddings")


@pytest.mark.parametrize("suffix", [".safetensors", ".npy", ".csv"])
def test_embeddings_are_written_and_broken_images_listed(run, model, glyphs, tmp_path, capsys, suffix):
    root = shutil.copytree(glyphs, tmp_path / "photos")
    (root / "A" / "text.png").write_text("no picture", encoding="utf-8")
    (root / "B" / "half.png").write_bytes(paths_of(glyphs)[0].read_bytes()[:150])
    output = tmp_path / "made" / f"all{suffix}"
    single = paths_of(glyphs)[3]
    assert command("embed", run, root, single, "-o", output, "--own-code") == 0
    shown = capsys.readouterr().err
    assert "warning: skipped 2 file(s) that cannot be read:\n" in shown
    assert f"warning:   {root / 'A' / 'text.png'}: not an image\n" in shown and "half.png: " in shown
    paths, embeddings = written(output)
    readable = [path for path in paths_of(root) if path.name not in ("text.png", "half.png")]
    assert paths == [*map(str, readable), str(single)]
    assert np.array_equal(embeddings, model.embed([*readable, single]))
    assert {path.name for path in output.parent.iterdir()} <= {output.name, "all.txt"}


def test_raw_embeddings_and_errors_of_embed(run, model, glyphs, tmp_path, capsys):
    a = paths_of(glyphs)[0]
    assert command("embed", run, a, "-o", tmp_path / "raw.csv", "--raw", "--own-code") == 0
    assert np.array_equal(written(tmp_path / "raw.csv")[1], model.embed([a], normalise=False))
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.png").write_text("no picture", encoding="utf-8")
    for images, output, sentence in (
        (a, "x.txt", "has an unknown suffix '.txt'"),
        (tmp_path / "empty", "x.csv", "There are no images in"),
        (tmp_path / "none", "x.csv", "none does not exist: pass image files or folders"),
        (tmp_path / "text.png", "x.csv", "None of the given images can be read: see the reasons above, and pass"),
    ):
        capsys.readouterr()
        assert command("embed", run, images, "-o", tmp_path / output, "--own-code") == 2
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / output).exists()


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("file.txt/x.csv", "Not a directory"),
        ("/proc/x.csv", "/proc/x.csv cannot be written (/proc: "),
        ("folder.csv", "is a folder, but --output must be a file"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_model_is_loaded(
    run, glyphs, tmp_path, capsys, monkeypatch, output, sentence
):
    (tmp_path / "file.txt").touch()
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.setattr("recheck.cli.embed.load", lambda options: pytest.fail("loaded"))
    assert command("embed", run, glyphs, "-o", tmp_path / output) == 2
    shown = capsys.readouterr().err
    assert sentence in shown and str(tmp_path / output) in shown and shown.count("\n") == 1


def test_an_image_is_no_gallery(run, glyphs, capsys):
    a, b, *_ = paths_of(glyphs)
    assert command("search", run, a, b, "--own-code") == 2
    assert f"error: {b} is a file, but a folder of images is needed" in capsys.readouterr().err


def test_a_folder_of_queries(run, model, glyphs, tmp_path, capsys):
    queries = tmp_path / "queries"
    queries.mkdir()
    for number in (0, 7):
        shutil.copy(paths_of(glyphs)[number], queries / f"{number}.png")
    (queries / "text.png").write_text("no picture", encoding="utf-8")
    assert command("search", run, queries, glyphs, "--own-code", "--count", 3, "--threshold", 2, "--json") == 0
    shown = capsys.readouterr()
    assert "text.png: not an image" in shown.err
    listed = {Path(entry["query"]).name: entry["matches"] for entry in json.loads(shown.out)["queries"]}
    assert [len(matches) for matches in listed.values()] == [3, 3, 0]
    nearest = model.nearest(queries / "7.png", paths_of(glyphs), 3, 2.0)
    assert [match["path"] for match in listed["7.png"]] == [str(match.image) for match in nearest]
    assert command("search", run, glyphs / "A", glyphs, "--own-code", "--count", 1, "--threshold", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    paths = sorted(str(path) for path in (glyphs / "A").iterdir())
    assert [line for line in lines if line in paths] == paths
    results = [line.rpartition("  ")[2] for line in lines if line.startswith("  1  ")]
    assert len(results) == len(paths) and all(a != b for a, b in zip(results, paths, strict=True))


# Comparing runs


def test_two_runs_are_compared(glyphs, tmp_path, capsys):
    first, second = (tmp_path / name / "seed0" for name in "ab")
    for folder, margin in ((first, 0.1), (second, 0.2)):
        write_fold(folder / "fold0", loss={"class": "TripletMarginLoss", "margin": margin})
        content = {"view": "separated", "metrics": {"P@1": margin * 2}, "folds": [{"P@1": margin}]}
        write_json(folder / "separated.json", content)
    assert command("compare", first, second, "--own-code", "--images", glyphs, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"] == {"loss.margin": [0.1, 0.2]} and shown["same_data"] is True
    assert shown["metrics"] == {"separated P@1": {"first": 0.2, "second": 0.4, "difference": 0.2}}
    labels = [path.parent.name for path in paths_of(glyphs)]
    expected = recheck.metrics(load(first, own_code=True).embed(paths_of(glyphs)), labels)
    assert {name: values["first"] for name, values in shown["images"].items()} == expected
    assert command("compare", first / "fold0", second / "fold0", "--own-code") == 0
    text = capsys.readouterr().out
    assert "Measured on the same images and split." in text and "loss.margin: 0.1 → 0.2" in text
    assert "separated P@1    10.00    20.00   +10.00" in text
    change(second / "fold0", lambda about: about["data"].update(split="other"), "run.json")
    assert command("compare", first, second, "--own-code") == 0
    assert "DIFFERENT images or splits" in capsys.readouterr().out


# Help


EXAMPLES = [
    (name, line.split()[1:])
    for name in COMMANDS
    for line in importlib.import_module(f"recheck.cli.{name}").EXAMPLES.splitlines()
]


@pytest.fixture(scope="module")
def place(tmp_path_factory, glyphs):
    """A folder in which the examples of --help can be typed."""
    folder = tmp_path_factory.mktemp("examples")
    write_run(folder / "results/calibration_tiny/emoji/circle_loss/seed0")
    for method in ("triplet", "arcface"):
        for fold in range(2):
            write_fold(folder / f"results/quickstart/emoji/{method}/seed0/fold{fold}", seed=fold)
    net = {"backbone": {"name": "timm/test_resnet", "weights": "none"}, "head": {"class": "Linear", "dim": 16}}
    write_fold(folder / "results/my_study/emoji/triplet/seed0/fold0", spec=net)
    shutil.copytree(glyphs, folder / "photos")
    shutil.copytree(glyphs / "A", folder / "queries")
    for name in ("one.png", "other.png"):
        shutil.copy(paths_of(glyphs)[0], folder / name)
    return folder


@pytest.mark.parametrize(
    ("name", "words"), EXAMPLES, ids=[f"{name}{place}" for place, (name, _) in enumerate(EXAMPLES)]
)
def test_the_examples_of_help_run(place, monkeypatch, capsys, name, words):
    monkeypatch.chdir(place)
    assert words[0] == name
    assert command(*words, "--own-code") in ((0, 1) if name in ("same", "search") else (0,)), capsys.readouterr().err


def test_a_missing_package_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("recheck.cli.same.load", lambda options: __import__("not_installed"))
    assert command("same", tmp_path, "a.png", "b.png") == 2
    sentence = (
        "error: This command needs the package 'not_installed', which is not installed: run `pip install \".[train]\"`"
    )
    assert sentence in capsys.readouterr().err

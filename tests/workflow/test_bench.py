"""The performance measurements run and make a page. No test depends on a time."""

import datetime
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import first_gpu
import gpu_rows
import quickstart
import report
import timing


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "report.py"), "--quick", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_three_quick_measurements_make_a_page():
    done = run("training", "loading", "dag")
    assert done.returncode == 0, done.stdout + done.stderr
    page = done.stdout
    assert re.findall(r"^## (.+)$", page, re.M) == ["Training", "Loading", "Planning"]
    assert "these figures mean nothing" in page
    goals = page.split("| ratio or time | goal | measured |")[1].split("\n\n")[0]
    assert goals.count("met") + goals.count("missed") == 5
    assert str(ROOT) not in page


def test_a_failed_measurement_is_reported_and_the_others_continue(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "good.py").write_text("print('noise'); print('## Good')")
    (tmp_path / "benchmarks" / "bad.py").write_text("raise SystemExit('no such thing')")
    monkeypatch.setattr(report, "FOLDER", tmp_path / "benchmarks")
    texts = [report.run(name, quick=True) for name in ("bad", "good")]
    assert texts == ["## bad\n\n**This measurement failed**: no such thing\n", "## Good\n"]
    page = report.assembled(texts, "A machine", datetime.date(2026, 1, 2), 0.1, quick=False)
    assert "2 January 2026" in page and "1 measurement(s) failed" in page and "mean nothing" not in page


def test_a_section_is_replaced_in_the_page():
    sections = ["## One\n\n- Goal: a ≥ 1; measured old.\n", "## Two\n\n- Goal: b ≤ 2; measured kept.\n"]
    page = report.assembled(sections, "A machine", datetime.date(2026, 1, 2), 0.1, quick=False)
    assert report.updated(page, []) == page
    renewed = report.updated(page, ["## One\n\n- Goal: a ≥ 1; measured new.\n", "## Three\n"])
    assert re.findall(r"^## (.+)$", renewed, re.M) == ["One", "Two", "Three"]
    assert "| a | ≥ 1 | new |\n| b | ≤ 2 | kept |" in renewed and "old" not in renewed
    assert report.updated(renewed, ["## One\n\n- Goal: a ≥ 1; measured new.\n"]) == renewed


def test_a_goal_is_judged_by_the_median_and_listed_at_the_top():
    lines = [timing.goal("a", [0.9, 1.2, 3.0], 1), timing.goal("b", [0.9, 1.2, 3.0], 1, at_least=False)]
    assert lines[0].endswith(", met.") and lines[1].endswith(", **missed**.")
    page = report.assembled(["## One\n" + "\n".join(lines)], "A machine", datetime.date(2026, 1, 2), 0.0, quick=False)
    assert "| a | ≥ 1 | 1.20 (0.90–3.00), met |\n| b | ≤ 1 | 1.20 (0.90–3.00), **missed** |" in page


def test_functions_are_measured_in_alternation():
    order, ticks = [], iter(range(100))
    functions = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = timing.in_turn(functions, 2, clock=lambda: next(ticks))
    assert order == ["a", "b", "a", "b"] and seconds == {"a": [1, 1], "b": [1, 1]}
    assert timing.ratios([2, 6], [1, 2]) == [2, 3]


@pytest.fixture
def logs(finished):
    return finished.path("logs/letters")


def test_seconds_per_rule_are_read_from_snakemakes_benchmark_files(logs, tmp_path):
    seconds = quickstart.by_rule(logs)
    assert set(seconds) == set(quickstart.ORDER) and min(seconds.values()) > 0
    quickstart.draw({"one": seconds, "other": seconds}, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_rows_at_their_published_sizes_are_measured_on_any_device():
    """In a study of the quickstart's size; a row that fails is reported, and the others are measured."""
    page = gpu_rows.section(quick=True)
    assert re.search(r"^\| quickstart emoji triplet \| as published \| 32 \| \d+ \| \d+ \| [\d.]+ \| ", page, re.M), (
        page
    )
    assert gpu_rows.attempt({}, None, None, None, 0)[0].startswith("failed: ")


def test_the_protocol_for_the_first_gpu_is_documented():
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    commands = page.split("<!-- protocol -->")[1].split("<!-- /protocol -->")[0].strip().splitlines()[1:-1]
    assert commands == [step.command for step in first_gpu.STEPS]
    named = re.findall(r"`((?:tests|benchmarks)/[\w/.]+)`", page)
    assert len(named) > 10 and [path for path in named if not (ROOT / path).exists()] == []
    assert f"{sum(step.minutes for step in first_gpu.STEPS):.0f} minutes in total" in page


def test_the_report_of_the_first_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "gpu_report"
    runs = "quickstart/emoji/triplet/seed0"
    for kind, weights in (("once", b"ab"), ("again", b"ax"), ("cpu", b"cc")):
        for fold, weight in enumerate(weights):
            path = folder / kind / runs / f"fold{fold}"
            path.mkdir(parents=True)
            (path / "model.safetensors").write_bytes(bytes([weight]))
            (path / "run.json").write_text("{}")
        metrics = {"metrics": {"P@1": len(kind) / 8}, "folds": []}
        (folder / kind / runs / "separated.json").write_text(json.dumps(metrics))
    assert first_gpu.compared(folder) == [
        "1 of 2 models have the same bits after an interruption (2 were trained).",
        f"Different: {runs}/fold1/model.safetensors",
        "triplet, separated: CPU P@1 0.375; GPU P@1 0.5.",
    ]
    stopped = first_gpu.run(first_gpu.Step("interrupted", "timeout --signal=INT 0.01 sleep inf", 60, True), folder)
    assert stopped["ended"] == "ok"
    steps = [
        ("good", "echo fine", 60),
        ("bad", "false", 60),
        ("gone", "no_such_program", 60),
        ("slow", "sleep inf", 0.001),
    ]
    outcomes = [first_gpu.run(first_gpu.Step(*step), folder) for step in steps]
    assert [one["ended"] for one in outcomes] == ["ok", "failed (1)", "failed (127)", "stopped: too slow"]
    assert (folder / "good.txt").read_text() == "$ echo fine\nfine\n"
    assert "| slow | stopped: too slow |" in first_gpu.summary(outcomes, [])
    (step,) = [step for step in first_gpu.STEPS if step.name == "cost"]
    cost = Path("results", step.command.split()[-1], "cost.md")
    cost.parent.mkdir(parents=True)
    cost.touch()
    sent = first_gpu.collected(Path("gpu_report"))
    named = ("good.txt", f"once/{runs}/fold0/run.json", f"cpu/{runs}/separated.json")
    assert {cost, *(Path("gpu_report", name) for name in named)} <= {*sent}
    assert not any(path.suffix == ".safetensors" for path in sent)

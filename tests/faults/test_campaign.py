"""The campaign of `make torture`, shortened: a few kills at random moments, and the same bits in the end."""

import json
import math
import random
import signal

import torch

from recheck.data.fold import FoldData
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from support.faults.kills import PLACES, Moment, content, differences, plan, torture


def test_killed_again_and_again(begun, quiet, record_property):
    """Kill whole process groups, a job, or Snakemake only, from the download to the page."""
    random_ = random.Random(5)
    # Less than 1: the undisturbed run filled caches, so it may have made more changes. The second training resumes.
    moments = [
        Moment(signal.SIGKILL, "fetch", "group", random_.uniform(0, 0.8)),
        Moment(signal.SIGTERM, "pack", "job", random_.uniform(0, 0.8)),
        Moment(signal.SIGTERM, "train", "group", random_.uniform(0, 0.5)),
        Moment(signal.SIGKILL, "train", "snakemake", random_.uniform(0, 0.3)),
        Moment(signal.SIGINT, "embed", "group", random_.uniform(0, 0.8)),
        Moment(signal.SIGKILL, "table", "job", random_.uniform(0, 0.8)),
    ]
    wrong = torture(begun, moments, quiet, cores=2, deadline=math.inf, with_orphans=False)
    assert wrong == []
    assert [moment for moment in moments if not moment.tried] == []
    record_property("tried", len(moments))


def test_the_study_skips_steps_in_float16(quiet, tmp_path):
    """The kills above hit a gradient scaler that several optimisers share, before and after its first step."""
    record = json.loads((quiet.folder / "results/letters/glyphs/proxy_1/seed0/fold0/run.json").read_text())
    settings = record["configuration"]
    settings["model"]["backbone"]["name"] = f"support.project.{settings['model']['backbone']['name']}"
    dataset = quiet.folder / "resources/datasets/glyphs"
    (pack,) = dataset.glob("packed/*")
    data = FoldData.load(dataset / "images.csv", quiet.folder / "results/letters/glyphs/split.json", pack, 0)
    settings["schedule"]["epochs"] = 2
    run = Run(settings, data, 0, 0, torch.device("cpu"), StateFile(tmp_path, "f"), tmp_path)
    run.train()
    taken = {name: min(int(state["step"]) for state in each.state.values()) for name, each in run.optimisers.items()}
    assert len(taken) == 3 and len(set(taken.values())) == 1, "a step is skipped by all optimisers or by none"
    assert 0 < taken["head"] < run.position.step


def test_content_ignores_times_and_nothing_else(begun, quiet):
    """A changed digit, an extra file and a missing file are differences; times are not."""
    folder = begun.path("results/letters/glyphs/proxy_1/seed0/fold0")
    folder.mkdir(parents=True)
    contents = []
    for seconds in (1.5, 2.5):
        (folder / "run.json").write_text(f'{{"best_value": 0.5, "wall_seconds": {seconds}, "cpu_seconds": {seconds}}}')
        (folder / "history.csv").write_text(f"epoch,loss,images_per_second\n1,0.5,{seconds}\n")
        begun.path("results/letters/index.html").write_text(f"<td>{seconds} s</td><td>0.5</td>")
        contents.append(content(begun))
    earlier, before = contents
    assert len(earlier) == 3
    assert differences(before, earlier) == []
    (folder / "history.csv").write_text("epoch,loss,images_per_second\n1,0.6,2.5\n")
    (folder / ".model.safetensors.x").touch()
    (folder / "run.json").unlink()
    assert [line.rsplit(": ", 1)[1] for line in differences(content(begun), before)] == [
        "left over",
        "other content",
        "missing",
    ]
    assert quiet.content


def test_moments_are_of_every_kind():
    moments = [moment for group in plan(50, 4, random.Random(0)) for moment in group]
    assert len(moments) == 150
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        sent = [moment for moment in moments if moment.signal == number]
        assert len(sent) == 50
        assert {moment.place for moment in sent} == set(PLACES)
        assert {moment.scope for moment in sent} == {"group", "job", "snakemake"}

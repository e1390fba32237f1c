"""The campaign of `make torture`, shortened: a few kills at random moments, and the same bits in the end."""

import math
import random
import signal

from support.faults.kills import PLACES, STUDY, Moment, content, differences, plan, torture


def test_killed_again_and_again(begun, quiet, record_property):
    """Kill whole process groups, a job, or Snakemake only, from the download to the page."""
    random_ = random.Random(5)
    moments = [
        Moment(signal.SIGKILL, "fetch", "group", True, random_.random()),
        Moment(signal.SIGTERM, "pack", "job", True, random_.random()),
        Moment(signal.SIGTERM, "train", "group", True, random_.random()),
        Moment(signal.SIGKILL, "train", "snakemake", True, random_.random()),
        Moment(signal.SIGINT, "embed", "group", False, random_.random()),
        Moment(signal.SIGKILL, "table", "job", True, random_.random()),
    ]
    wrong = torture(begun, moments, quiet, cores=2, deadline=math.inf)
    assert wrong == []
    tried = sum(moment.tried for moment in moments)
    assert tried >= 4, moments
    record_property("tried", tried)


def test_content_ignores_times_and_nothing_else(begun, quiet):
    """A changed digit, a file too many and one too few are differences; times are not."""
    folder = begun.path("results/letters/glyphs/proxy_1/seed0/fold0")
    folder.mkdir(parents=True)
    for seconds in (1.5, 2.5):
        (folder / "run.json").write_text(f'{{"best_value": 0.5, "wall_seconds": {seconds}}}')
        (folder / "history.csv").write_text(f"epoch,loss,images_per_second\n1,0.5,{seconds}\n")
        begun.path("results/letters/index.html").write_text(f"<td>{seconds} s</td><td>0.5</td>")
        found = content(begun)
        assert len(found) == 3
    before = found
    assert differences(content(begun), before) == []
    (folder / "history.csv").write_text("epoch,loss,images_per_second\n1,0.6,2.5\n")
    (folder / ".model.safetensors.x").touch()
    (folder / "run.json").unlink()
    assert [line.rsplit(": ", 1)[1] for line in differences(content(begun), before)] == [
        "left over",
        "other content",
        "missing",
    ]
    assert quiet.content and "sweep" in STUDY


def test_moments_are_of_every_kind():
    moments = [moment for own in plan(50, 4, random.Random(0)) for moment in own]
    assert len(moments) == 150
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        own = [moment for moment in moments if moment.signal == number]
        assert len(own) == 50
        assert {moment.place for moment in own} == set(PLACES)
        assert {moment.scope for moment in own} == {"group", "job", "snakemake"}

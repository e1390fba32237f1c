"""A search that is killed at random moments makes the same proposals, the same choice and the same final runs."""

import random
import shutil

from support.faults import events
from support.faults.events import Strike
from support.faults.fuzz import MORE, SEED
from support.faults.kills import content, differences
from support.project.tuned import SEARCH

MODELS = [f"{SEARCH}/seed0/fold{fold}/model.safetensors" for fold in (0, 1)]
FILES = [*MODELS, *(f"{SEARCH}/tuning/{name}" for name in ("round0.json", "round1.json", "best.json", "trials.csv"))]
COMMAND = ("--nolock", *MODELS)
KILLS_PER_RUN = 3


def results(project):
    """Path → hash of every result; the state of a run depends on when it was saved."""
    return {path: digest for path, digest in content(project).items() if not path.startswith("results/state/")}


def forget(project):
    """Delete a finished search, its final runs and all states, so that everything is made again."""
    for path in [*project.path(SEARCH).glob("trial*"), project.path(f"{SEARCH}/tuning"), project.path("results/state")]:
        shutil.rmtree(path)
    for model in MODELS:
        for name in ("model.safetensors", "history.csv", "run.json"):
            project.path(model).with_name(name).unlink()


def test_killed_at_random_moments(tuned, tmp_path, record_property):
    """Each kill comes before a random one of all changes to the disk that an undisturbed run makes."""
    project, generator = tuned.copy(tmp_path / "project"), random.Random(SEED)
    events.watch(project)
    forget(project)
    code, total = events.run(project, "--cores", "1", *COMMAND)
    assert code == 0
    for path in FILES:
        assert project.path(path).read_bytes() == tuned.path(path).read_bytes(), path
    usual, killed = results(project), 0
    while killed < max(KILLS_PER_RUN, MORE // 20):
        forget(project)
        done = 0
        for moment in sorted(generator.sample(range(1, total + 1), KILLS_PER_RUN)):
            code, _ = events.run(
                project, "--cores", str(generator.choice([1, 3])), *COMMAND, strike=Strike(moment - done)
            )
            if code == 0:
                break  # a moment near the end: the remaining work made fewer changes
            killed, done = killed + 1, moment
        if code:
            code, _ = events.run(project, "--cores", "2", *COMMAND)
        assert code == 0 and differences(results(project), usual) == []
    record_property("tried", killed)

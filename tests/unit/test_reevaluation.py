"""How often Snakemake's scheduler looks for jobs to start."""

import threading

import pytest
from snakemake.scheduling.job_scheduler import JobScheduler

from recheck import reevaluation


class Scheduler:
    _schedule_reevalutation = JobScheduler._schedule_reevalutation

    def __init__(self):
        self._open_jobs = threading.Semaphore(0)


class Timer:
    """Ends when the test says so."""

    started: list["Timer"] = []

    def __init__(self, delay, work):
        self.delay, self.work = delay, work

    def start(self):
        Timer.started.append(self)


@pytest.fixture
def scheduler(monkeypatch):
    monkeypatch.setattr(Timer, "started", [])
    kind = type("Installed", (Scheduler,), {})
    reevaluation.install(kind, Timer)
    return kind()


def test_a_look_is_planned_once_per_time_span(scheduler):
    for delay in (1, 1, 10, 1):
        scheduler._schedule_reevalutation(delay)
    assert [(timer.delay, timer.daemon) for timer in Timer.started] == [(1, True), (10, True)]
    type(scheduler)()._schedule_reevalutation(1)  # another scheduler plans its own
    assert len(Timer.started) == 3


def test_the_look_itself_plans_the_next_one(scheduler):
    scheduler._schedule_reevalutation(1)
    for number in range(1, 4):
        Timer.started[-1].work()
        assert scheduler._open_jobs.acquire(blocking=False)
        for _ in range(number):
            scheduler._schedule_reevalutation(1)  # by the look, and by jobs that ended meanwhile
        assert len(Timer.started) == 1 + number
    assert not scheduler._open_jobs.acquire(blocking=False)


def test_another_version_of_snakemake_without_the_method_is_noticed():
    with pytest.raises(AttributeError, match="_schedule_reevalutation"):
        reevaluation.install(type("Later", (), {}))

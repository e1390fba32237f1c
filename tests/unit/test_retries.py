"""Which failed jobs Snakemake may retry. tests/workflow/test_failed_rows.py asks Snakemake itself."""

import os

from recheck import retries


class Job:
    def __init__(self, *logs):
        self.log = logs

    def is_group(self):
        return False

    @property
    def restart_times(self):
        return 5


class Group(Job):
    def __init__(self, *jobs):
        self.jobs = jobs

    def is_group(self):
        return True


def test_jobs_are_retried_unless_they_failed_for_good_in_this_call(tmp_path):
    retries.install((Job, Group), since=1000)
    names = ("passing", "hopeless", "formerly")
    passing, hopeless, formerly = (Job(str(tmp_path / f"{name}.log")) for name in names)
    retries.record(passing.log[0], "The network failed.", for_good=False)
    for job in (hopeless, formerly):
        retries.record(job.log[0], "Wrong key.\nDetails.", for_good=True)
    os.utime(tmp_path / "formerly.failed", (999, 999))  # written in an earlier call of Snakemake
    silent = Job(str(tmp_path / "killed.log"))
    assert [job.restart_times for job in (passing, hopeless, formerly, silent, Job())] == [5, 0, 5, 5, 5]
    assert Group(silent, hopeless).restart_times == 0
    assert Group(silent, passing).restart_times == 5
    assert retries.reason_in(tmp_path / "hopeless.failed") == "Wrong key."

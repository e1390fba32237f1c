"""The report lists only jobs that failed for good."""

from recheck import failures

ERROR = """
[Mon Nov 16 12:18:50 2026]
Error in rule train:
    message: SLURM-job '12' failed
    jobid: {job}
    input: a.csv, b.json
    output: {output}
    log: {log} (check log file(s) for error details)
    external_jobid: 12
Trying to restart job {job}.
"""


def test_a_job_that_succeeded_in_the_end_is_not_named(tmp_path):
    text = ERROR.format(job=2, output="x", log=tmp_path / "x.log") + "Finished jobid: 2 (Rule: train)\n"
    assert failures.report(text) == ""
    assert failures.report("Nothing to be done\n") == ""


def test_last_lines_without_tracebacks(tmp_path):
    log = tmp_path / "train.log"
    rows = [f"2026-11-16 12:00:0{row} INFO epoch {row}" for row in range(7)]
    traceback = ["2026-11-16 12:00:08 DEBUG traceback", "Traceback (most recent call last):", "  File x"]
    log.write_text("\n".join([*rows, *traceback, "2026-11-16 12:00:09 ERROR The loss became nan."]))
    text = ERROR.format(job=2, output="x", log=log) * 3 + "Finished jobid: 22 (Rule: train)\n"
    report = failures.report(text)
    assert report.startswith("1 job failed for good")
    assert report.count(str(log)) == 1
    assert report.endswith("ERROR The loss became nan.")
    assert "epoch 3" in report
    assert "epoch 2" not in report
    assert "Traceback" not in report


def test_other_logs_and_missing_logs(tmp_path):
    other = tmp_path / "12.log"
    other.write_text("one\n\ntwo\n")
    text = ERROR.format(job=3, output="x", log=f"{tmp_path / 'missing.log'}, {other}")
    report = failures.report(text + ERROR.format(job=4, output="y", log=other))
    assert report.startswith("2 jobs failed for good")
    assert "missing.log: missing" in report
    assert "    two" in report


def test_a_group_is_read_like_a_rule(tmp_path):
    log = tmp_path / "evaluate.log"
    log.write_text("2026-11-16 12:00:09 ERROR No embeddings.\n")
    text = f"""
Error in group measure:
    message: SLURM-job '8' failed
    jobs:
        rule evaluate:
            jobid: 17
            output: z.json
            log: {log} (check log file(s) for error details)
"""
    assert "No embeddings." in failures.report(text)
    assert failures.report(text + "Finished jobid: 17 (Rule: evaluate)\n") == ""


STOPPED = (
    "2026-11-16 12:00:09 WARNING Stopped by SIGINT at step 7, state saved: run the same command again to resume.\n"
)
CTRL_C = "Terminating processes on user request, this might take some time.\n"


def test_a_deliberate_stop_is_not_a_failure(tmp_path):
    """One job saved its state, one was stopped before it wrote anything, and one had failed before."""
    logs = [tmp_path / f"{name}.log" for name in ("saved", "starting", "failed")]
    logs[0].write_text(STOPPED)
    errors = [ERROR.format(job=number, output="x", log=log) for number, log in enumerate(logs)]
    report = failures.report("".join(errors[:2]) + CTRL_C)
    assert report == "Stopped on request. 2 jobs were stopped by a signal. Run the same command again to resume."
    logs[2].write_text(STOPPED + "2026-11-16 12:00:09 ERROR The loss became nan.\n")
    report = failures.report("".join(errors) + CTRL_C)
    assert "1 job failed for good. Last lines of the logs:" in report and "The loss became nan." in report
    assert "saved.log" not in report


def test_a_job_that_ran_out_of_time_on_a_cluster_is_not_a_failure(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(STOPPED.replace("INT", "TERM"))
    report = failures.report(ERROR.format(job=2, output="x", log=log))
    assert report == "1 job was stopped by a signal. Run the same command again to resume."

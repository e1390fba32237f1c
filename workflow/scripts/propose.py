"""Propose the trials of one round, from all trials of the rounds before."""

from recheck.files import write_json
from recheck.job import job
from recheck.tuning.propose import propose
from recheck.tuning.trials import finished_trials, round_file

with job(snakemake) as log:
    source, params = snakemake.input, snakemake.params
    earlier = source.get("before")
    finished = finished_trials(earlier, source.records, params.search["objective"]) if earlier else []
    proposed = propose(params.search, finished, params.trials)
    for trial, values in proposed.items():
        log.info("Trial %d: %s", trial, values)
    write_json(snakemake.output[0], round_file(int(snakemake.wildcards.round), finished, proposed))

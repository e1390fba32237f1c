"""Measure how much each free setting mattered in a search."""

from recheck.files import write_json
from recheck.job import job
from recheck.tuning.importance import importance
from recheck.tuning.trials import finished_trials

with job(snakemake):
    source, search = snakemake.input, snakemake.params.search
    trials = finished_trials(source.before, source.records, search["objective"])
    write_json(snakemake.output[0], {"importance": importance(search, trials)})

"""Choose the best trial of a search, and write the table of all trials."""

from recheck.files import write_json, write_text
from recheck.job import job
from recheck.tuning.choose import choose
from recheck.tuning.trials import finished_trials, table

with job(snakemake) as log:
    source, search = snakemake.input, snakemake.params.search
    trials = finished_trials(source.before, source.records, search["objective"])
    chosen = choose(search, trials)
    log.info("Trial %d is the best of %d: %s", chosen["trial"], chosen["trials"], chosen["values"])
    write_text(snakemake.output.trials, table(trials, sorted(search["space"])))
    write_json(snakemake.output.best, chosen)

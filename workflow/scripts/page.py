"""The page of a study: one file with its tables, figures and the record of every run."""

from recheck.files import write_text
from recheck.job import job
from recheck.report.assemble import Inputs, page

with job(snakemake):
    source = snakemake.input
    runs = Inputs.of(snakemake.params.found or source).runs
    text = page(snakemake.params.study, source.tables, [*source.figures, *source.vectors], runs)
    write_text(snakemake.output[0], text)

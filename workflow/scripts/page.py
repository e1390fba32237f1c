"""The page of a study: one file with its tables, figures and the record of every run."""

from recheck.files import write_text
from recheck.job import job
from recheck.report.assemble import page

with job(snakemake):
    source = snakemake.input
    text = page(snakemake.params.study, source.tables, [*source.figures, *source.vectors], source.runs)
    write_text(snakemake.output[0], text)

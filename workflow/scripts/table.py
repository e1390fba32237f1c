"""The table of one dataset in a study, in three formats from one frame."""

from recheck.files import write_text
from recheck.job import job
from recheck.report.assemble import Inputs, table

with job(snakemake):
    inputs = Inputs.of(snakemake.params.found or snakemake.input, snakemake.params.published)
    made = table(snakemake.params.study, snakemake.wildcards.dataset, inputs)
    write_text(snakemake.output.md, made.markdown())
    write_text(snakemake.output.csv, made.csv())
    write_text(snakemake.output.tex, made.latex())

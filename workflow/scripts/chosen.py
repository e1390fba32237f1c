"""Write the values that all searches of a study chose, as a study to paste or copy."""

from recheck.files import write_text
from recheck.job import job
from recheck.report.searches import chosen_study

with job(snakemake):
    params = snakemake.params
    write_text(snakemake.output[0], chosen_study(params.base, snakemake.input, params.blocks))

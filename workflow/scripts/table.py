"""Write the table of one dataset in a study, in four formats."""

from recheck.files import write_json, write_text
from recheck.job import job
from recheck.report.inputs import Inputs

with job(snakemake):
    table = Inputs(snakemake.params.facts, snakemake.params.existing or snakemake.input).table
    write_text(snakemake.output.md, table.markdown())
    write_text(snakemake.output.csv, table.csv())
    write_text(snakemake.output.tex, table.latex())
    write_json(snakemake.output.json, table.json())

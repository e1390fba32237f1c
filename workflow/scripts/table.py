"""Write the table of one dataset in a study, in four formats, and the comparison of its rows."""

from recheck.files import write_json, write_text
from recheck.job import job
from recheck.report import comparison
from recheck.report.inputs import Inputs

with job(snakemake):
    inputs = Inputs(snakemake.params.facts, snakemake.params.existing or snakemake.input)
    table = inputs.table
    write_text(snakemake.output.md, table.markdown())
    write_text(snakemake.output.csv, table.csv())
    write_text(snakemake.output.tex, table.latex())
    write_json(snakemake.output.json, table.json())
    write_text(snakemake.output.comparison, comparison.csv(inputs.comparison))

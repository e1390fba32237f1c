"""Draw one figure of one dataset in a study, as PNG and SVG."""

from recheck.job import job
from recheck.report.figures import all_figures
from recheck.report.inputs import Inputs

with job(snakemake):
    inputs = Inputs(snakemake.params.facts, snakemake.params.existing or snakemake.input)
    all_figures()[snakemake.wildcards.figure].draw(inputs, snakemake.output.png, snakemake.output.svg)

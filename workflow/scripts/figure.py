"""One figure of one dataset in a study, as PNG and SVG."""

from recheck.job import job
from recheck.report.assemble import Inputs, figure

with job(snakemake):
    wildcards, output = snakemake.wildcards, snakemake.output
    inputs = Inputs.of(snakemake.params.found or snakemake.input, snakemake.params.published)
    figure(wildcards.figure, snakemake.params.study, wildcards.dataset, inputs, output.png, output.svg)

"""Draw one figure of one dataset in a study, as PNG and SVG."""

from recheck.blame import user_code
from recheck.job import job
from recheck.report.figures import all_figures
from recheck.report.inputs import Inputs

with job(snakemake):
    inputs = Inputs(snakemake.params.facts, snakemake.params.existing or snakemake.input)
    figure = all_figures(tuple(snakemake.config.get("figures") or ()))[snakemake.wildcards.figure]
    with user_code("figure", figure):
        figure.draw(inputs, snakemake.output.png, snakemake.output.svg)

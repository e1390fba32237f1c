"""Draw the hours of a study's rows, as PNG and SVG."""

from recheck.files import read_json
from recheck.job import job
from recheck.report.cost_figure import draw

with job(snakemake):
    draw(read_json(snakemake.input[0]), snakemake.output.png, snakemake.output.svg)

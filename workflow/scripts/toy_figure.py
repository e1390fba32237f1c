"""Draw one figure of an experiment with points in a plane, as PNG and SVG."""

from recheck.job import job
from recheck.report import toy

with job(snakemake):
    runs = dict(zip(snakemake.params.labels, map(toy.read, snakemake.input), strict=True))
    toy.draw(snakemake.wildcards.picture, runs, snakemake.output.png, snakemake.output.svg)

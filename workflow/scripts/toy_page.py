"""Write the page of an experiment with points in a plane."""

from recheck.files import write_text
from recheck.job import job
from recheck.report import toy

with job(snakemake):
    source, about = snakemake.input, snakemake.params.toy
    labels = [experiment["label"] for experiment in about["experiments"].values()]
    runs = dict(zip(labels, map(toy.read, source.runs), strict=True))
    write_text(snakemake.output[0], toy.page(about, runs, [*source.figures, *source.vectors]))

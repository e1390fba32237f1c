"""One figure of one dataset in a study, as PNG and SVG."""

from pathlib import Path

from recheck.job import job
from recheck.report.assemble import Inputs, figure

with job(snakemake):
    source, wildcards, output = snakemake.input, snakemake.wildcards, snakemake.output
    inputs = Inputs(
        evaluations=source.evaluations,
        histories=source.get("histories", []),
        runs=source.get("runs", []),
        embeddings=source.get("embeddings", []),
        split=source.get("split"),
        index=source.get("index"),
        pack=Path(source.pack[0]).parent if source.get("pack") else None,
        published=snakemake.params.get("published"),
    )
    figure(wildcards.figure, snakemake.params.study, wildcards.dataset, inputs, output.png, output.svg)

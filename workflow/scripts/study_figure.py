"""Draw one figure of all datasets of a study, as PNG and SVG."""

from recheck.blame import user_code
from recheck.job import job
from recheck.report.figures import study_figures
from recheck.report.inputs import StudyInputs
from recheck.report.tables import load

with job(snakemake):
    inputs = StudyInputs(snakemake.params.facts, [load(path) for path in snakemake.input.tables])
    figure = study_figures(tuple(snakemake.config.get("figures") or ()))[snakemake.wildcards.figure]
    with user_code("figure", figure):
        figure.draw(inputs, snakemake.output.png, snakemake.output.svg)

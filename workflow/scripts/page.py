"""Write the page of a study, with its tables, figures and runs, and the verdicts on its published values."""

from recheck.files import write_text
from recheck.job import job
from recheck.report import citations, page, tables, verdicts

with job(snakemake):
    source = snakemake.input
    runs = (snakemake.params.existing or source).get("runs", [])
    own_figures = tuple(snakemake.config.get("figures") or ())
    facts = snakemake.params.facts
    drawn = [*source.figures, *source.vectors]
    frames = {table.dataset: table.frame for table in map(tables.load, source.tables)}
    text = page.make(facts, source.tables, drawn, runs, own_figures, source.get("searches", [])[:1])
    write_text(snakemake.output.html, text)
    write_text(snakemake.output.verdicts, verdicts.csv(verdicts.lines(frames)))
    write_text(snakemake.output.bibtex, citations.bibtex([*facts["rows"], *facts["quoted"]]))

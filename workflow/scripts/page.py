"""Write the page of a study, with its tables, figures and runs, and the verdicts on its published values."""

from recheck.files import write_text
from recheck.job import job
from recheck.report import citations, page, tables, verdicts
from recheck.report.site.collect import Site, by_dataset

with job(snakemake):
    source, params = snakemake.input, snakemake.params
    files = params.existing or source
    own_figures = tuple(snakemake.config.get("figures") or ())
    facts = params.facts
    frames = {table.dataset: table.frame for table in map(tables.load, source.tables)}
    site = Site(*params.folders)
    site.add(
        {**facts, "study": params.runs}, by_dataset(params.datasets, files), all_rows=facts["scope"] != "published"
    )
    text = page.make(
        facts,
        source.tables,
        [*source.figures, *source.vectors],
        files.get("runs", []),
        own_figures,
        source.get("searches", [])[:1],
        site.data(params.runs),
    )
    write_text(snakemake.output.html, text)
    write_text(snakemake.output.verdicts, verdicts.csv(verdicts.lines(frames)))
    write_text(snakemake.output.bibtex, citations.bibtex([*facts["rows"], *facts["quoted"]]))

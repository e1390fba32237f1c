"""Write the results site: one page with all studies on disk, and one page per study."""

from pathlib import Path

from recheck.files import read_json, write_text
from recheck.job import job
from recheck.report.site.collect import Site, relative
from recheck.report.site.render import page

with job(snakemake):
    params = snakemake.params
    site = Site(*params.folders)
    galleries = {tuple(Path(path).parts[-3:-1]): path for path in snakemake.input.galleries}
    for study in params.studies:
        name, report = study["about"]["study"], study["page"]
        site.add(
            study["about"],
            {facts["dataset"]: (facts, files) for facts, files in study["datasets"]},
            page=relative(report, site.results_folder) if report else None,
            galleries={
                dataset: read_json(path) for (folder, dataset), path in galleries.items() if folder == study["folder"]
            },
        )
    write_text(snakemake.output.html, page(site.data(), title="Results of all studies"))
    for study, path in zip(site.studies, snakemake.output.pages, strict=True):
        shown = {"title": study["title"], "description": study["description"], "headline": study["verdicts"]}
        write_text(path, page(site.data(study["name"]), **shown, home="../index.html"))

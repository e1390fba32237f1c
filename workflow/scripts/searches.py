"""Write the tables of a study's published searches, with our own searches beside them."""

from recheck.files import write_json, write_text
from recheck.job import job
from recheck.report.inputs import Inputs
from recheck.report.results import place
from recheck.report.tables.searches import selected_values, trials_needed

with job(snakemake):
    files = snakemake.params.existing or snakemake.input
    datasets = []
    for facts in snakemake.params.facts:
        of_dataset = {
            kind: [path for path in files.get(kind, []) if place(path).dataset == facts["dataset"]]
            for kind in ("searches", "trials")
        }
        datasets.append(Inputs(facts, {**of_dataset, "quoted_searches": files["quoted_searches"]}))
    tables = {"searches": selected_values, "effort": trials_needed}
    made = {name: make(snakemake.wildcards.study, datasets) for name, make in tables.items()}
    for name, table in made.items():
        write_text(snakemake.output[f"{name}_md"], table.markdown())
        write_text(snakemake.output[f"{name}_csv"], table.csv())
        write_text(snakemake.output[f"{name}_tex"], table.latex())
    write_json(snakemake.output.json, {name: table.json() for name, table in made.items()})

"""Estimate what a study costs, compare it with what finished runs took, and print and write the report."""

from recheck.cost.finished import read_finished
from recheck.cost.meta import Counter
from recheck.cost.tally import tally
from recheck.files import write_json, write_text
from recheck.job import job
from recheck.report.cost import markdown, table_csv

with job(snakemake) as log:
    count = Counter()
    document = tally(snakemake.params.plan, count, read_finished(snakemake.params.finished))
    for network, reason in count.failed.items():
        log.warning("The FLOPs of the network '%s' cannot be counted: %s.", network, reason)
    text = markdown(document)
    write_text(snakemake.output.md, text)
    write_text(snakemake.output.csv, table_csv(document))
    write_json(snakemake.output.json, document)
    print(f"\n{text}", flush=True)

"""Write the retrieval galleries of all rows of a dataset, for the site."""

from recheck.files import write_json
from recheck.job import job
from recheck.report.inputs import Inputs
from recheck.report.site import galleries

with job(snakemake):
    write_json(snakemake.output[0], galleries.make(Inputs(snakemake.params.facts, snakemake.params.existing)))

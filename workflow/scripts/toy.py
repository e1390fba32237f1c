"""Train one loss on points in a plane, and write the arrays for its figures."""

import torch

from recheck.job import job
from recheck.progress import Progress
from recheck.training import toy

with job(snakemake):
    # with batches of twenty points, more threads would only wait for each other
    torch.set_num_threads(1)
    settings = snakemake.params.settings
    with Progress(total=settings["steps"], unit="step", desc=snakemake.wildcards.experiment) as bar:
        arrays = toy.run(
            settings["experiment"], settings["steps"], settings["seed"], settings["points"], progress=bar.update
        )
    toy.write(snakemake.output[0], arrays)

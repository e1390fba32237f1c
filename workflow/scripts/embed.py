"""The test embeddings of one run, computed once for both views, the figures and the page."""

import shutil
from pathlib import Path

import torch

from recheck.data import transforms
from recheck.data.packed import PackedImages
from recheck.data.splits import read_split
from recheck.evaluation.embeddings import write_embeddings
from recheck.job import job
from recheck.models.embedding import load_model
from recheck.progress import Progress
from recheck.training.device import autocast, choose_device
from recheck.training.loading import embed
from recheck.training.seeding import make_deterministic

with job(snakemake):
    params = snakemake.params
    configuration = params.configuration
    torch.set_num_threads(snakemake.threads)
    make_deterministic(snakemake.config["deterministic"])
    device = choose_device(snakemake.config["device"])
    model = load_model(snakemake.input.model, configuration["model"], device)
    indices = read_split(snakemake.input.split, int(snakemake.wildcards.fold))["test"]
    embeddings = embed(
        model,
        PackedImages(Path(snakemake.input.pixels).parent),
        indices,
        transforms.build(configuration["transforms"]["eval"]),
        configuration["sampler"]["batch"],
        device,
        autocast(device, configuration.get("precision", "float32")),
        progress=lambda batches: Progress(batches, desc="embed", unit="batch"),
    )
    write_embeddings(snakemake.output[0], {"test": embeddings})
    # The model is whole and has been used: what training would need to continue is no longer needed.
    shutil.rmtree(params.state, ignore_errors=True)

"""Compute the test embeddings of one run, once for all views, figures and the page."""

import shutil
from pathlib import Path

import torch

from recheck.data import transforms
from recheck.data.fold import FoldData
from recheck.data.scratch import local_pack
from recheck.data.splits import embedded, paired_training_images
from recheck.evaluation.embeddings import write_embeddings
from recheck.job import job
from recheck.models.embedding import FeaturesToo, load_models
from recheck.names import BACKBONE
from recheck.progress import Progress
from recheck.training.device import autocast, reserve_device
from recheck.training.loading import embed, loader_processes
from recheck.training.memory import enough_memory
from recheck.training.record import data_hashes
from recheck.training.seeding import make_deterministic
from recheck.tuning.trials import completed

with job(snakemake):
    source, config = snakemake.input, snakemake.config
    configuration = completed(snakemake.params.configuration, source.get("tuned"))
    torch.set_num_threads(config["cpu_threads"])
    make_deterministic(config["deterministic"])
    device = reserve_device(config, f"embed {snakemake.output[0]}", snakemake.resources)
    # Each image is read only once, so an existing local copy of the pack is used, but none is made.
    folder = local_pack(Path(source.pack).parent, config.get("pathvars", {}).get("scratch"), make=False)
    data = FoldData.load(source.index, source.split, folder, int(snakemake.wildcards.fold))
    roles = {role: data.roles[role] for role in embedded(data.roles)}
    of_training = configuration.get("distances") == "train"
    also = {"train": paired_training_images(data.roles, data.labels)} if of_training else {}
    embeddings, with_features = {}, configuration.get("features", False)
    # the run's model and, if the study asks for it, the checkpoint that is best on the test set
    for prefix, model in load_models(
        source.model, configuration["model"], data_hashes(source.split, source.pack), device
    ):
        for role, images in (roles if prefix else roles | also).items():
            with enough_memory(configuration, config["gpu_share"], trains=False):
                rows = embed(
                    FeaturesToo(model) if with_features else model,
                    data.images,
                    images,
                    transforms.build(configuration["transforms"]["eval"]),
                    configuration["sampler"]["batch"],
                    device,
                    autocast(device, configuration.get("precision", "float32")),
                    progress=lambda batches: Progress(batches, desc="embed", unit="batch"),
                    workers=loader_processes(config, snakemake.threads),
                )
            embeddings[f"{prefix}{role}"] = rows[:, -model.dim :]
            if with_features and not prefix:
                embeddings[f"{BACKBONE}/{role}"] = rows[:, : model.features]
    write_embeddings(snakemake.output[0], embeddings)
    # The model is complete and could be loaded, so the training state is no longer needed.
    shutil.rmtree(snakemake.params.state, ignore_errors=True)

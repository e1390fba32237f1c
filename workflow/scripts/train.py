"""One run: train, choose the checkpoint, write it down."""

import sys
import time
from pathlib import Path

import torch

from recheck.data.index import read_index
from recheck.data.packed import PackedImages
from recheck.data.splits import read_split
from recheck.files import write_json
from recheck.job import job
from recheck.models.embedding import save_model
from recheck.training.checkpoint import StateFile
from recheck.training.device import choose_device
from recheck.training.engine import FoldData, Run
from recheck.training.history import write_history
from recheck.training.interrupt import Interrupted, StopRequest
from recheck.training.record import data_hashes, machine, run_fingerprint
from recheck.training.seeding import make_deterministic

stop = StopRequest().listen()

with job(snakemake) as log:
    started = time.perf_counter()
    params, wildcards = snakemake.params, snakemake.wildcards
    seed, fold = int(wildcards.seed), int(wildcards.fold)
    torch.set_num_threads(snakemake.threads)
    make_deterministic(snakemake.config["deterministic"])
    device = choose_device(snakemake.config["device"])
    data = data_hashes(snakemake.input.split, snakemake.input.pack)
    fingerprint = run_fingerprint(params.configuration, seed, fold, data)
    run = Run(
        params.configuration,
        FoldData(
            PackedImages(Path(snakemake.input.pack).parent),
            read_index(snakemake.input.index)["label"].to_numpy(),
            read_split(snakemake.input.split, fold),
        ),
        seed,
        fold,
        device,
        StateFile(params.state, fingerprint),
        Path(snakemake.output.model).with_name("tensorboard"),
        workers=snakemake.threads - 1 if snakemake.config["workers"] is None else snakemake.config["workers"],
        stop=stop,
    )
    try:
        outcome = run.train()
    except Interrupted as interruption:
        log.warning("%s", interruption)
        sys.exit(interruption.exit_code)
    save_model(snakemake.output.model, outcome.weights, params.configuration["model"], fingerprint)
    write_history(snakemake.output.history, outcome.history)
    write_json(
        snakemake.output.record,
        {
            **{key: wildcards[key] for key in ("study", "dataset", "method")},
            "seed": seed,
            "fold": fold,
            "fingerprint": fingerprint,
            "configuration": params.configuration,
            "data": data,
            "best_epoch": outcome.best_epoch,
            "best_value": outcome.best_value,
            "epochs": outcome.history[-1]["epoch"],
            **machine(device, snakemake.threads),
            "wall_seconds": round(time.perf_counter() - started, 1),
        },
    )

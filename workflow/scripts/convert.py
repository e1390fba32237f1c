"""Convert a released checkpoint into a run, with the same files that training would write."""

from pathlib import Path

import torch

from recheck.errors import UserError
from recheck.files import read_json, sha256, write_json
from recheck.job import job
from recheck.models.embedding import save_model
from recheck.models.released import convert
from recheck.training.history import write_history
from recheck.training.record import UserFiles, data_hashes, image_reading, machine, run_fingerprint

with job(snakemake):
    source, wildcards = snakemake.input, snakemake.wildcards
    configuration = snakemake.params.configuration
    seed, fold = int(wildcards.seed), int(wildcards.fold)
    torch.set_num_threads(snakemake.config["cpu_threads"])
    released = read_json(source.released)
    checkpoint = released["folds"][fold]
    files = {name: Path(source.released).parent / checkpoint[name]["file"] for name in checkpoint if name != "epoch"}
    for name, path in files.items():
        if not path.is_file() or sha256(path) != checkpoint[name]["sha256"]:
            raise UserError(f"{path} is missing or has changed: delete {source.released} and run again.")
    data = data_hashes(source.split, source.pack)
    own_files = UserFiles(configuration).hashes
    weights = convert(released["layout"], configuration["model"], files)
    save_model(snakemake.output.model, weights, configuration["model"], data)
    write_history(
        snakemake.output.history, [{"epoch": checkpoint["epoch"], "step": None, "loss": None, "source": "released"}]
    )
    write_json(
        snakemake.output.record,
        {
            **{key: wildcards[key] for key in ("study", "dataset", "method")},
            "seed": seed,
            "fold": fold,
            "fingerprint": run_fingerprint({**configuration, "released": checkpoint}, seed, fold, data, own_files),
            "configuration": configuration,
            "data": data,
            "images": image_reading(source.pack),
            "own_files": own_files,
            "released": {key: value for key, value in released.items() if key != "folds"} | checkpoint,
            "best_epoch": checkpoint["epoch"],
            **machine(torch.device("cpu"), snakemake.threads),
        },
    )

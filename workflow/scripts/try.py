"""Try the rows of a study in seconds: one real training step and one small evaluation per row. No results are kept."""

import torch

from recheck.data.few import few_images
from recheck.errors import UserError
from recheck.job import job
from recheck.training.device import reserve_device
from recheck.training.memory import enough_memory
from recheck.training.seeding import make_deterministic
from recheck.training.tryout import try_row

with job(snakemake):
    config, tried = snakemake.config, snakemake.params.tried
    torch.set_num_threads(config["cpu_threads"])
    make_deterministic(config["deterministic"])
    device = reserve_device(config, "try")
    failed = []
    for row in tried:
        data, about = few_images(row["source"])
        print(f"\n{row['name']} on {row['source']['parser']['name']}, {device}: {about}", flush=True)
        try:
            with enough_memory(row["configuration"], config["gpu_share"]):
                lines = try_row(row["configuration"], data, device, row["own_metrics"]).lines()
        except UserError as error:
            failed.append(row["name"])
            lines = [f"failed       {error}"]
        for line in lines:
            print(f"  {line}", flush=True)
    if failed:
        raise UserError(f"{len(failed)} of {len(tried)} rows failed: {', '.join(failed)}. See the reasons above.")

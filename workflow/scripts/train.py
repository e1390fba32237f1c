"""Train one run and write its model, history and record; for a trial, write only the history and record."""

import shutil
import sys
import time
from logging import INFO, WARNING
from pathlib import Path

import torch

from recheck.data.fold import FoldData
from recheck.data.scratch import local_pack
from recheck.data.transforms import padding_notes
from recheck.files import write_json
from recheck.job import job, warn_once
from recheck.models.embedding import save_model
from recheck.training.checkpoint import StateFile
from recheck.training.device import reserve_device
from recheck.training.engine import Run
from recheck.training.history import write_history
from recheck.training.interrupt import Interrupted, StopRequest
from recheck.training.loading import loader_processes
from recheck.training.memory import enough_memory
from recheck.training.record import UserFiles, data_hashes, image_reading, machine, run_fingerprint
from recheck.training.reuse import FinishedRuns, reuse_key
from recheck.training.saving import SAVE_EVERY
from recheck.training.seeding import make_deterministic
from recheck.training.trial import failure
from recheck.tuning.seeds import trial_seed
from recheck.tuning.trials import completed


def warn(findings):
    """Log what the sanity checks found."""
    for finding in findings:
        log.log(
            WARNING if trial is None else INFO,
            "%s, seed %s, fold %s: %s",
            wildcards.method,
            seed,
            wildcards.fold,
            finding["text"],
        )


with job(snakemake) as log:
    started, used = time.perf_counter(), time.process_time()
    user_files = UserFiles(snakemake.params.configuration)
    source, config, wildcards = snakemake.input, snakemake.config, snakemake.wildcards
    folder = Path(snakemake.output.record).parent
    trial = int(wildcards.trial) if wildcards.get("trial") else None
    configuration = completed(snakemake.params.configuration, source.get("tuned"), trial)
    seed = int(wildcards.seed) if trial is None else trial_seed(snakemake.params.seed, trial)
    fold = int(wildcards.fold)
    torch.set_num_threads(config["cpu_threads"])
    make_deterministic(config["deterministic"])
    device = reserve_device(config, f"train {folder}", snakemake.resources)
    data = data_hashes(source.split, source.pack)
    fingerprint = run_fingerprint(configuration, seed, fold, data, user_files.hashes)
    place = {**{key: wildcards[key] for key in ("study", "dataset", "method")}, "seed": seed, "fold": fold}
    place |= {} if trial is None else {"trial": trial}
    hardware = machine(device, snakemake.threads)
    finished_runs, outputs = FinishedRuns(snakemake.params.state), dict(snakemake.output.items())
    key = reuse_key(fingerprint, hardware, config["deterministic"])
    # Snakemake plans a tuned run again after each change of its search, usually with the same values.
    note = finished_runs.keep if trial is None and source.get("tuned") else finished_runs.note
    if config.get("reuse", True) and (reused := finished_runs.copy(key, outputs)):
        user_files.copy_to(folder / "code")
        seconds = round(time.perf_counter() - started, 1)
        this_run = {**place, "images": image_reading(source.pack), "wall_seconds": seconds}
        write_json(snakemake.output.record, {**reused, **this_run})
        log.info("Reused the same run from %s", reused["reused_from"])
        warn(reused.get("warnings", []))
        note(key, outputs)
        sys.exit()
    pack = local_pack(Path(source.pack).parent, config.get("pathvars", {}).get("scratch"))
    images = FoldData.load(source.index, source.split, pack, fold)
    # Only from here on: a job that is still waiting for a GPU or a copy has no state to save, so a signal may end it.
    stop = StopRequest().listen()
    for sentence in padding_notes(configuration["transforms"], images.shapes):
        where = f"study '{wildcards.study}', dataset '{wildcards.dataset}'"
        warn_once(Path(snakemake.log[0]).parents[3] / "warned", f"{where}: {sentence}")
    try:
        run = Run(
            configuration,
            images,
            seed,
            fold,
            device,
            StateFile(snakemake.params.state, fingerprint),
            folder / "tensorboard",
            workers=loader_processes(config, snakemake.threads),
            stop=stop,
            name=f"{wildcards.method}, fold {fold},",
            save_every=config.get("save_every", SAVE_EVERY),
            device_name=hardware["device_name" if device.type == "cuda" else "processor"],
        )
        with enough_memory(configuration, config["gpu_share"]):
            outcome = run.train()
    except Interrupted as interruption:
        log.warning("%s", interruption)
        sys.exit(interruption.exit_code)
    except Exception as error:
        reason = None if trial is None else failure(error)
        if reason is None:
            raise
        log.info("Trial %d failed: %s", trial, reason, exc_info=error)
        write_history(snakemake.output.history, [])
        about = {"fingerprint": fingerprint, "configuration": configuration, "data": data}
        write_json(snakemake.output.record, {**place, **about, "failed": reason, **hardware})
        shutil.rmtree(snakemake.params.state, ignore_errors=True)
        sys.exit()
    user_files.warn_of_others()
    user_files.copy_to(folder / "code")
    warn(outcome.warnings)
    if trial is None:
        save_model(
            snakemake.output.model,
            outcome.weights,
            configuration["model"],
            data,
            num_classes=run.num_classes,
            best_on_test=outcome.best_on_test,
        )
    write_history(snakemake.output.history, outcome.history)
    write_json(
        snakemake.output.record,
        {
            **place,
            "fingerprint": fingerprint,
            "configuration": configuration,
            "data": data,
            "images": image_reading(source.pack),
            "own_files": user_files.hashes,
            **({"weights": run.model.weights_file} if run.model.weights_file else {}),
            "best_epoch": outcome.best_epoch,
            "best_value": outcome.best_value,
            "epochs": outcome.history[-1]["epoch"],
            **({"best_on_test": outcome.best_row} if outcome.best_on_test else {}),
            **({"best": outcome.best_row} if source.get("tuned") else {}),
            "warnings": outcome.warnings,
            **hardware,
            "devices": run.position.devices,
            "deterministic": config["deterministic"],
            "images_forwarded": run.images_forwarded,
            "trainable_parameters": run.trainable_parameters,
            "wall_seconds": round(time.perf_counter() - started, 1),
            # CPU time of this process, after its imports: unlike wall time, it hardly depends on other jobs
            "cpu_seconds": round(time.process_time() - used, 1),
        },
    )
    if len(run.position.devices) == 1:  # the key names only one device
        note(key, outputs)
    if trial is not None:
        # Nothing reads the weights of a trial, so no later job removes its state.
        shutil.rmtree(snakemake.params.state, ignore_errors=True)

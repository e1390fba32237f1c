"""A GPU of its own for each job of a machine.

Snakemake counts GPUs (``--resources gpu=4``) but does not say which one a job has. So a job takes the first that is
free, by a lock on a file named by the device, and sees no other. The lock is the kernel's: it goes with the process
that holds it, however that ends, so that there is nothing to clean up after a crash.

Imported while Snakemake parses the workflow, so nothing heavy is imported here.
"""

import contextlib
import fcntl
import logging
import os
import re
import stat
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

from recheck.errors import UserError

log = logging.getLogger("recheck")

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_SECONDS = 1.0
REMIND_SECONDS = 600.0


def visible_gpus() -> list[str]:
    """The GPUs a job may use, in order, by what CUDA_VISIBLE_DEVICES can name them: UUIDs wherever they are known.

    The numbers in CUDA_VISIBLE_DEVICES are those of ``nvidia-smi``. As in CUDA, what follows an unknown device does not
    count. A GPU that is cut into MIG instances stands for these.
    """
    named = os.environ.get(VISIBLE)
    if named is not None and not named.strip():
        return []
    gpus = _listed_gpus()
    if named is None:
        return [device for instances in gpus.values() for device in instances]
    found: list[str] = []
    for entry in (part.strip() for part in named.split(",")):
        # where no GPU can be listed (a container without nvidia-smi), names are taken as they are
        devices = _devices(entry, gpus) if gpus else [entry] * (entry not in ("", "-1"))
        if not devices:
            break
        found += devices
    return list(dict.fromkeys(found))


def _devices(entry: str, gpus: dict[str, list[str]]) -> list[str]:
    """What an entry of CUDA_VISIBLE_DEVICES means: a number, or the beginning of a UUID that no other has."""
    if entry.isdecimal():
        return list(gpus.values())[int(entry)] if int(entry) < len(gpus) else []
    names = gpus | {
        instance: [instance] for instances in gpus.values() for instance in instances if instance not in gpus
    }
    # older drivers: MIG-GPU-<uuid>/<gi>/<ci>
    fitting = [uuid for uuid in names if entry.startswith(("GPU-", "MIG-")) and uuid.startswith(entry)]
    if not fitting and entry.startswith("MIG-"):
        return [entry]
    return names[fitting[0]] if len(fitting) == 1 else []


def _listed_gpus() -> dict[str, list[str]]:
    """The machine's GPUs in the order of their buses, each with what can be used: its MIG instances, or itself."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        listed = _listed_by_the_driver()
    gpus: dict[str, list[str]] = {}
    for uuid in re.findall(r"UUID:\s*((?:GPU|MIG)-[\w/-]+)", listed):
        if uuid.startswith("GPU-"):
            gpus[uuid] = []
        elif gpus:
            gpus[next(reversed(gpus))].append(uuid)
    return {uuid: instances or [uuid] for uuid, instances in gpus.items()}


def _listed_by_the_driver() -> str:
    places = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    return "\n".join(place.read_text(encoding="utf-8", errors="replace") for place in places)


def take_gpu(job: str) -> str | None:
    """Wait for a free GPU, keep it until this process ends, and make it the only one that CUDA sees.

    To be called before CUDA is initialised, which reads CUDA_VISIBLE_DEVICES once. None if there is no GPU, or if SLURM
    has given this job the one that it sees.
    """
    gpus = visible_gpus()
    if not gpus or ("SLURM_JOB_ID" in os.environ and len(gpus) == 1):
        return None
    started = time.monotonic()
    reminded = None
    while True:
        for gpu in gpus:
            if _lock(gpu, job):
                os.environ[VISIBLE] = gpu
                log.info("on GPU %s, after %.0f s of waiting", gpu, time.monotonic() - started)
                return gpu
        now = time.monotonic()
        if reminded is None or now - reminded >= REMIND_SECONDS:
            reminded = now
            log.warning(
                "All %d GPUs are taken (%s), %s waits for one and holds its cores meanwhile; `--resources gpu=%d` "
                "starts no more jobs than there are GPUs.",
                len(gpus),
                "; ".join(_lock_file(gpu).read_text(encoding="utf-8").strip() or gpu for gpu in gpus),
                job,
                len(gpus),
            )
        time.sleep(POLL_SECONDS)


def _lock(gpu: str, job: str) -> bool:
    """Lock the GPU's file for the rest of this process, unless another has it. What is written in it is for people."""
    file = os.open(_lock_file(gpu), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    os.ftruncate(file, 0)
    os.write(file, f"process {os.getpid()}: {job}\n".encode())
    # A forked loader worker that outlives its parent for a moment must not keep the GPU from others.
    os.register_at_fork(after_in_child=partial(_close, file))
    return True


def _close(file: int) -> None:
    with contextlib.suppress(OSError):
        os.close(file)


def _lock_file(gpu: str) -> Path:
    """One file a GPU for all projects of a user on this machine. It is never removed, only locked."""
    folder = Path(tempfile.gettempdir(), f"recheck-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise UserError(f"{folder} is not a folder of yours, so GPUs can't be locked there: remove it or set TMPDIR.")
    # Numbers mean something else in every SLURM job that several GPUs were given to.
    owner = f"slurm{os.environ['SLURM_JOB_ID']}-" if gpu.isdecimal() and "SLURM_JOB_ID" in os.environ else ""
    return folder / (owner + re.sub(r"[^\w-]", "_", gpu))

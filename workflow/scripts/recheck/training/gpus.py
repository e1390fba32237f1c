"""Reserve one GPU per job, or one of several places on a GPU.

Snakemake counts GPUs (``--resources gpu=4``) but does not tell a job which one to use. So each job locks a file named
after the first free GPU or place, and hides all other GPUs from CUDA. The kernel releases the lock when the process
ends, even after a crash, so there is nothing to clean up.

Snakemake imports this module while it parses the workflow, so it imports nothing heavy.
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
from pathlib import Path

from recheck.errors import UserError

log = logging.getLogger("recheck")

VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_DEVICES = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs; the last one is SLURM's."""
POLL_SECONDS = 1.0
REMIND_SECONDS = 600.0
DRIVER = re.compile(r"\d{3,}(?:\.\d+)+")


def visible_gpus() -> list[str]:
    """GPUs that a job may use, in order, named as in CUDA_VISIBLE_DEVICES: by UUID if it is known.

    Numbers in CUDA_VISIBLE_DEVICES are read as ``nvidia-smi`` numbers. As in CUDA, an unknown device ends the list. A
    GPU split into MIG instances is replaced by its instances.
    """
    named = os.environ.get(VISIBLE)
    if named is not None and not named.strip():
        return []
    gpus = _listed_gpus()
    if named is None:
        return [device for instances in gpus.values() for device in instances]
    usable: list[str] = []
    for entry in (name.strip() for name in named.split(",")):
        # If GPUs cannot be listed (a container without nvidia-smi), trust the names as given.
        devices = _devices(entry, gpus) if gpus else [entry] * (entry not in NO_DEVICES)
        if not devices:
            break
        usable += devices
    return list(dict.fromkeys(usable))


def missing_gpus() -> str | None:
    """CUDA_VISIBLE_DEVICES, if this machine has no GPU that it names; CUDA itself would silently find no GPU."""
    named = os.environ.get(VISIBLE, "")
    wanted = named.split(",")[0].strip() not in NO_DEVICES
    return named if wanted and not visible_gpus() else None


def _devices(entry: str, gpus: dict[str, list[str]]) -> list[str]:
    """Devices that an entry of CUDA_VISIBLE_DEVICES names: a number, or an unambiguous prefix of a UUID."""
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
    """GPU → its usable devices (its MIG instances, or itself), for all GPUs of the machine in bus order."""
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


def driver_version() -> str | None:
    """Version of the NVIDIA driver, such as 580.65.06; None if there is no driver."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout.split()
        if answer and DRIVER.fullmatch(answer[0]):
            return answer[0]
    with contextlib.suppress(OSError):
        match = DRIVER.search(Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace"))
        return match[0] if match else None
    return None


def hide_gpus() -> None:
    """Hide all GPUs from CUDA, for a job that has reserved none. Call this before CUDA is initialised."""
    os.environ[VISIBLE] = ""


def take_gpu(job: str, share: int = 1) -> str | None:
    """Wait for a free place on a GPU, reserve it until this process ends, and hide all other GPUs from CUDA.

    A GPU has ``share`` places. Call this before CUDA is initialised: CUDA reads CUDA_VISIBLE_DEVICES only once. Returns
    None if the machine has no GPU, or if SLURM has already reserved the only visible one for this job.
    """
    gpus = visible_gpus()
    if not gpus or ("SLURM_JOB_ID" in os.environ and len(gpus) == 1):
        return None
    started = time.monotonic()
    reminded = None
    while True:
        for place in range(share):  # the first place of every GPU, then the second
            for gpu in gpus:
                if _lock(gpu, job, place if share > 1 else None):
                    os.environ[VISIBLE] = gpu
                    log.info("Using GPU %s, after waiting %.0f s", gpu, time.monotonic() - started)
                    return gpu
        now = time.monotonic()
        if reminded is None or now - reminded >= REMIND_SECONDS:
            reminded = now
            places = len(gpus) * share
            log.warning(
                "%s taken (%s). '%s' is waiting and keeps its cores; with `--resources gpu=%d` "
                "Snakemake starts at most one job per %s.",
                "The only GPU is"
                if places == 1
                else f"All {len(gpus)} GPUs are"
                if share == 1
                else f"All {places} places on {len(gpus)} {'GPU' if len(gpus) == 1 else 'GPUs'} are",
                "; ".join(holder for gpu in gpus for holder in _holders(gpu)) or "by other jobs",
                job,
                places,
                "GPU" if share == 1 else "place",
            )
        time.sleep(POLL_SECONDS)


def _lock(gpu: str, job: str, place: int | None) -> bool:
    """Try to lock a place on the GPU (None: the whole GPU) until this process ends.

    Jobs that share a GPU hold a shared lock on its file and an exclusive one on the file of their place. So they never
    share with a job that wants the GPU for itself. The text in the files is only for people.
    """
    if place is None:
        files = [_try_lock(_lock_file(gpu), fcntl.LOCK_EX)]
    else:
        files = [_try_lock(_lock_file(gpu), fcntl.LOCK_SH), _try_lock(_lock_file(gpu, place), fcntl.LOCK_EX)]
    if None in files:
        for file in files:
            if file is not None:
                os.close(file)
        return False
    for file in files:
        os.ftruncate(file, 0)
        _locked.append(file)
    os.write(files[-1], f"process {os.getpid()}: {job}\n".encode())
    return True


def _try_lock(path: Path, kind: int) -> int | None:
    """The locked file, or None if another process has locked it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _holders(gpu: str) -> list[str]:
    """The jobs that last locked the GPU or its places, for people."""
    first = _lock_file(gpu)
    paths = [first, *sorted(first.parent.glob(f"{first.name}.*"))]
    return [text for path in paths if path.is_file() and (text := path.read_text(encoding="utf-8").strip())]


def _close_in_child() -> None:
    """Close the lock files once: in a grandchild, their descriptors may belong to other files."""
    while _locked:
        with contextlib.suppress(OSError):
            os.close(_locked.pop())


# A forked loader worker may outlive its parent for a moment; it must not keep the GPU locked.
_locked: list[int] = []
os.register_at_fork(after_in_child=_close_in_child)


def _lock_file(gpu: str, place: int | None = None) -> Path:
    """Lock file of a GPU or of a place on it, for all projects of a user on this machine. It is never deleted."""
    folder = Path(tempfile.gettempdir(), f"recheck-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise UserError(
            f"{folder} is not a folder that belongs to you, so Recheck cannot lock GPUs there: delete it or set TMPDIR."
        )
    # Inside a SLURM job with several GPUs, a number may mean a different GPU than outside.
    owner = f"slurm{os.environ['SLURM_JOB_ID']}-" if gpu.isdecimal() and "SLURM_JOB_ID" in os.environ else ""
    return folder / (owner + re.sub(r"[^\w-]", "_", gpu) + ("" if place is None else f".{place}"))

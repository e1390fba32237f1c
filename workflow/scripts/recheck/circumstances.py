"""Error messages for failures of the machine, not of any code: GPU, memory, disk and network."""

import errno
import os

AGAIN = "run the same command again; finished work is kept"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BROKEN_DISK = (errno.EIO, errno.ESTALE, errno.ENXIO)
UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN)
NETWORK_MODULES = ("requests", "urllib3", "urllib", "http", "httpx", "httpcore", "ssl", "socket", "huggingface_hub")
NO_NETWORK = f"check the internet connection or the proxy, and {AGAIN}"


def sentence(error: BaseException) -> str | None:
    """What happened to the machine and what to do; None if the machine is not to blame.

    PyTorch's exceptions are recognised by name and text, so that jobs without PyTorch need not import it.
    """
    text = (str(error).strip().splitlines() or [""])[0].rstrip(".")
    name = type(error).__name__
    if out_of_gpu_memory(error):
        return (
            f"The GPU has too little memory ({text}): lower 'sampler.batch' or the size of the images, or stop other "
            f"programs that use this GPU, and {AGAIN}."
        )
    if name == "AcceleratorError" or any(word in text for word in ("CUDA error", "CUDA driver", "cuDNN", "CUBLAS_")):
        return (
            f"The GPU failed ({text}): check it with `nvidia-smi` and {AGAIN}. To continue without it, add "
            "`--config device=cpu`."
        )
    if "DataLoader worker" in text and "killed" in text:
        return (
            f"A loader process was killed ({text}), most likely because memory or shared memory (/dev/shm) ran out: "
            f"add `--config workers=0`, or more memory, and {AGAIN}."
        )
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "not enough memory" in text:
        return f"The machine has too little memory ({text or name}): run fewer jobs at once (`--cores`), and {AGAIN}."
    if not isinstance(error, OSError) and type(error).__module__.split(".")[0] not in NETWORK_MODULES:
        return None
    return _of_system(error, text)


def out_of_gpu_memory(error: BaseException) -> bool:
    """Whether the GPU ran out of memory, in PyTorch's allocator or in a CUDA library."""
    words = ("CUDA out of memory", "CUDA error: out of memory", "_STATUS_ALLOC_FAILED", "MPS backend out of memory")
    return type(error).__name__ == "OutOfMemoryError" or any(word in str(error) for word in words)


def _of_system(error: BaseException, text: str) -> str | None:
    number, file = getattr(error, "errno", None), getattr(error, "filename", None)
    module = type(error).__module__.split(".")[0]
    if number in FULL:
        return f"No space left on {f'the disk of {file}' if file else 'a disk'}: free some space and {AGAIN}."
    if number == errno.ENOMEM:
        return f"The machine has too little memory: run fewer jobs at once (`--cores`), and {AGAIN}."
    if number in (errno.EMFILE, errno.ENFILE):
        return f"Too many files are open: raise the limit (`ulimit -n 4096`), and {AGAIN}."
    if number in BROKEN_DISK:
        disk = f"The disk of {file}" if file else "A disk"
        return f"{disk} failed ({os.strerror(number)}): check the disk or its mount, and {AGAIN}."
    if isinstance(error, (ConnectionError, TimeoutError)) and not isinstance(error, BrokenPipeError):
        return f"The network failed ({text or type(error).__name__}): {NO_NETWORK}."
    if number in UNREACHABLE or module in NETWORK_MODULES:
        return f"The network failed ({text or type(error).__name__}): {NO_NETWORK}."
    return None

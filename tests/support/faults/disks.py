"""A small separate disk, if the machine allows it."""

import os
import shutil
import subprocess

import pytest

from support.suite.unavailable import unavailable


def private_mounts():
    """Command that gives a process its own mounts; containers may forbid it."""
    command = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    if not shutil.which("unshare"):
        unavailable("no unshare (util-linux): a small disk can't be mounted here")
    if subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow a process to mount a small disk")
    return command

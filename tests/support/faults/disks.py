"""A small disk of one's own, where the machine allows it."""

import os
import shutil
import subprocess

import pytest


def private_mounts():
    """The command that gives a process mounts of its own; containers may forbid it."""
    command = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    if not shutil.which("unshare"):
        pytest.skip("no unshare (util-linux): a small disk can't be mounted here")
    if subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow a process to mount a small disk of its own")
    return command

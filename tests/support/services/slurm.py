"""A SLURM cluster on this machine, for tests: real daemons on loopback, stopped by their pid files.

Two virtual nodes, the first with GPUs that are device nodes without a device behind them: SLURM hands them out and sets
CUDA_VISIBLE_DEVICES as it would for real ones. Needs root and Debian's packages slurmctld, slurmd, slurm-client, munge.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from support.suite.hang import STUCK_SECONDS, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
# Where Debian's SLURM looks when SLURM_CONF is not set, as in the job steps that the executor starts.
SYSTEM = Path("/etc/slurm")
FILES = ("slurm.conf", "gres.conf", "cgroup.conf")
PORT = 26817
SHARDS = 4  # per GPU

MARK = "ClusterName=recheck-tests"
CONFIGURATION = """
{mark}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={port}
SlurmctldPidFile={folder}/pid/slurmctld.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdPidFile={folder}/pid/slurmd.%n.pid
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=1
JobAcctGatherType=jobacct_gather/none
MinJobAge=36000
KillWait={stuck}
MessageTimeout=100
TCPTimeout=100
BatchStartTimeout=3600
SlurmdTimeout=0
UnkillableStepTimeout=3600
PropagateResourceLimits=NONE
GresTypes=gpu,shard
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=32 RealMemory=64000 Gres={gres} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=32 RealMemory=64000 State=UNKNOWN
PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=1-00:00:00 DefaultTime=10 State=UP
PartitionName=gpu Nodes=n1 MaxTime=1-00:00:00 DefaultTime=10 State=UP
"""


class Unable(Exception):
    """Raised if this machine can't run SLURM; the message says why."""


@contextlib.contextmanager
def cluster(folder: Path, gpus: int = 2) -> Iterator["Cluster"]:
    """Run the daemons during the block, one cluster at a time per machine."""
    check_machine()
    # one lock per machine, because ports and /etc/slurm are shared
    with FileLock("/tmp/recheck-slurm.lock"):
        remove_leftovers()
        started = Cluster(folder, gpus)
        try:
            started.start()
            yield started
        finally:
            started.stop()


def check_machine() -> None:
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        raise Unable(
            f"{', '.join(missing)} not found: apt-get install slurmctld slurmd slurm-client munge (.ci/run does)."
        )
    if os.geteuid() != 0:
        raise Unable("SLURM's daemons switch users, so they need root: run the tests as root, e.g. in a container.")


def remove_leftovers(system: Path = SYSTEM) -> None:
    """Stop the cluster of a test that was killed, and remove its links. The caller has the lock, so nobody uses it."""
    links = [system / name for name in FILES]
    for folder in sorted({link.readlink().parent for link in links if link.is_symlink()}):
        file = folder / "slurm.conf"
        if not file.exists() or MARK in file.read_text().splitlines():
            Cluster(folder, system=system).remove()


class Cluster:
    def __init__(self, folder: Path, gpus: int = 0, system: Path = SYSTEM):
        self.folder, self.gpus, self.system = folder, gpus, system
        self.configuration = folder / "slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": str(self.configuration)}

    def start(self) -> None:
        for name in ("state", "log", "pid", "spool", "munge", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._link_configuration()
        self._start_munge()
        self._run("slurmctld")
        for node in ("n1", "n2"):
            self._run("slurmd", "-N", node)
        self._wait_until_idle()

    def stop(self) -> None:
        """Stop the jobs, then the daemons."""
        with contextlib.suppress(Unable):
            self._run("scancel", "--full", "--user=root")
            self._wait_until_empty()
        self.remove()

    def remove(self) -> None:
        """Stop every daemon by its pid file, kill what jobs left, and remove the links that other tests wait for."""
        for path in sorted((self.folder / "pid").glob("*.pid"), reverse=True):  # slurmd, slurmctld, munged
            pid = int(path.read_text() or 0)
            # a file that is older than the machine's last start names some other process
            if _name(pid) == path.name.split(".")[0]:
                _end(pid)
        self.kill()
        for name in FILES:
            link = self.system / name
            if link.is_symlink() and link.readlink() == self.folder / name:
                link.unlink()

    def kill(self, **environment: str) -> None:
        """Kill every process of the cluster's jobs with these environment variables, such as ``SLURM_JOB_ID``.

        SLURM without cgroups loses processes whose step was killed.
        """
        variables = {"SLURM_CONF": str(self.configuration), **environment}
        marks = {f"{name}={value}".encode() for name, value in variables.items()}
        killed = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and marks <= {*(entry / "environ").read_bytes().split(b"\0")}:
                    os.kill(int(entry.name), signal.SIGKILL)
                    killed.append(int(entry.name))
        wait_until(lambda: all(map(_is_gone, killed)), pause=0.05, seconds=STUCK_SECONDS)

    def _write_configuration(self) -> None:
        text = CONFIGURATION.format(
            mark=MARK,
            stuck=STUCK_SECONDS,
            folder=self.folder,
            host=socket.gethostname().split(".")[0],
            port=PORT,
            first=PORT + 1,
            second=PORT + 2,
            gres=f"gpu:{self.gpus},shard:{self.gpus * SHARDS}",
        )
        self.configuration.write_text(text)
        devices = [self.folder / "dev" / f"gpu{number}" for number in range(self.gpus)]
        for device in devices:
            # /dev/null under another name: a plain file could be scheduled, but CUDA_VISIBLE_DEVICES would stay unset
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        (self.folder / "gres.conf").write_text(
            "".join(f"NodeName=n1 Name=gpu File={device}\n" for device in devices)
            + f"NodeName=n1 Name=shard Count={self.gpus * SHARDS}\n"
        )
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nConstrainCores=no\nConstrainRAMSpace=no\nConstrainDevices=no\n"
        )

    def _link_configuration(self) -> None:
        self.system.mkdir(exist_ok=True)
        for name in FILES:
            link = self.system / name
            if link.is_symlink() or link.exists():
                raise Unable(f"{link} exists: this machine belongs to a SLURM cluster, which the tests leave alone.")
            link.symlink_to(self.folder / name)

    def _start_munge(self) -> None:
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        (self.folder / "munge").chmod(0o755)
        for parent in (self.folder, *self.folder.parents):
            if parent.stat().st_mode & 0o001 == 0:
                parent.chmod(parent.stat().st_mode | 0o011)  # munge requires that others can reach its socket
        self._run(
            "munged",
            "--force",
            f"--key-file={key}",
            f"--socket={self.folder / 'munge' / 'socket'}",
            f"--pid-file={self.folder / 'pid' / 'munged.pid'}",
            f"--log-file={self.folder / 'log' / 'munged.log'}",
            f"--seed-file={self.folder / 'munge' / 'seed'}",
            "--num-threads=2",
        )

    def _wait_until_idle(self) -> None:
        if wait_until(self._is_idle, pause=0.1):
            return
        nodes = self._ask("sinfo", "--Node", "--long")
        logs = "\n".join(
            f"{path.name}: {path.read_text()[-2000:]}" for path in sorted((self.folder / "log").glob("*.log"))
        )
        raise Unable(f"SLURM's nodes did not come up:\n{nodes}\n{logs}")

    def _is_idle(self) -> bool:
        idle = self._ask("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N")
        return set(idle.split()) == {"n1", "n2"}

    def _wait_until_empty(self) -> None:
        wait_until(lambda: not self._ask("squeue", "--noheader").strip(), pause=0.1, seconds=STUCK_SECONDS)

    def _ask(self, *command: str) -> str:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unable(f"`{' '.join(command)}` failed: {done.stdout}{done.stderr}")


def _name(pid: int) -> str:
    """Name of the program that a process runs; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not wait_until(lambda: _is_gone(pid), pause=0.05, seconds=STUCK_SECONDS):
            os.kill(pid, signal.SIGKILL)


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:  # it may end between two calls
        return True

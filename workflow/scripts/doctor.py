"""Check this machine before a long run: print one line per check, and fail if a problem would stop a run."""

from pathlib import Path

from recheck.doctor.devices import devices
from recheck.doctor.disks import folders
from recheck.doctor.finding import PROBLEM
from recheck.doctor.network import answers, hosts
from recheck.doctor.slurm import partitions
from recheck.doctor.system import open_files, python, shared_memory
from recheck.errors import UserError
from recheck.job import job


def findings(config, params):
    """Findings in the order in which they are shown; each check runs only when its finding is requested."""
    workers = params.run_threads - 1 if config["workers"] is None else config["workers"]
    yield from python(Path("requirements.txt"))
    yield open_files()
    yield shared_memory(params.runs, workers)
    yield from folders({key: Path(folder) for key, folder in params.folders.items()})
    yield from partitions(params.submitted, params.minutes)
    yield from answers(hosts(map(Path, params.described)))
    trial = {
        "configuration": params.row["configuration"],
        "resize": params.row["source"]["resize"],
        "threads": config["cpu_threads"],
    }
    yield from devices(config["device"], trial, f"{config['study']}: {params.row['name']}")


with job(snakemake) as log:
    problems = []
    for finding in findings(snakemake.config, snakemake.params):
        problems += [finding.name] * (finding.state == PROBLEM)
        for line in finding.lines():
            print(line, flush=True)
            log.info("%s", line)
    if problems:
        raise UserError(
            f"{len(problems)} of these checks found a problem that would stop a run: {', '.join(problems)}. "
            "Follow the advice above and check again."
        )

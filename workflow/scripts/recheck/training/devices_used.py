"""The devices that a run has used, one after the other: a resumed run may continue on another one."""

import logging
from typing import Any

log = logging.getLogger("recheck")


def note_device(used: list[dict[str, Any]], kind: str, name: str, epochs: int, step: int) -> None:
    """Add the device to the list of used devices, unless it is the last entry.

    ``epochs`` and ``step`` count what the run has finished. Results computed on two kinds of devices differ in their
    last digits from results computed on one.
    """
    if used and (used[-1]["device"], used[-1]["name"]) == (kind, name):
        return
    if used:
        log.warning(
            "This run was started on %s (%s) and continues on %s (%s) after step %d, so its last digits differ from "
            "those of a run on one device. run.json lists the devices.",
            used[-1]["device"],
            used[-1]["name"],
            kind,
            name,
            step,
        )
    used.append({"device": kind, "name": name, "from_epoch": epochs + 1 if used else 0, "from_step": step})

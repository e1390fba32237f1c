"""Errors that end a trial of a search but not the study: the trial's settings may have caused them."""

from recheck import circumstances
from recheck.circumstances import out_of_gpu_memory
from recheck.errors import MachineError, UserError, printable


class Diverged(UserError):
    """The loss or the embeddings are no longer finite numbers."""

    def __init__(self, reason: str, kept: str = ""):
        """``kept`` says where the last state is; it is not part of the reason."""
        super().__init__(f"{reason}{kept}")
        self.reason = reason


def failure(error: Exception) -> str | None:
    """Why a trial failed, in one line; None if the machine failed, so that the job is repeated.

    A GPU with too little memory is the trial's failure: another batch size or embedding size would fit.
    """
    if isinstance(error, Diverged):
        return error.reason
    if any(out_of_gpu_memory(each) for each in (error, error.__cause__) if each):
        return "The GPU has too little memory for these settings."
    lines = printable(str(error)).strip().splitlines() or [""]
    if isinstance(error, (MachineError, OSError)) or circumstances.sentence(error):
        return None
    return lines[0] if isinstance(error, UserError) else f"{type(error).__name__}: {lines[0].rstrip('.')}."

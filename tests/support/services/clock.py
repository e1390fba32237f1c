"""A clock that shows the time that a test sets."""


class Clock:
    """Called, it returns ``now``, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

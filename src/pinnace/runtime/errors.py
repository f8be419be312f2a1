"""Errors of the runtime package.

    RuntimeFailure          the machinery itself cannot go on; ends the process
    ├── CacheSyncTimeout    a cache was not filled in time
    ├── LeadershipLost      another process may be leading now
    └── GracePeriodExceeded work in flight had to be cancelled at shutdown
    QueueShutDown           no keys are left; tells a worker to end

What goes wrong with one key is none of these: it is logged and tried again. (docs/spec: CTL 2.1)
"""

from collections.abc import Iterable


class RuntimeFailure(Exception):
    """The machinery cannot go on."""


class CacheSyncTimeout(RuntimeFailure):
    """Some caches did not fill in time."""

    def __init__(self, names: Iterable[str], seconds: float) -> None:
        super().__init__(f"caches not synced after {seconds:g} s: {', '.join(sorted(names))}")


class LeadershipLost(RuntimeFailure):
    """This process may not hold the lease any longer: everything that only a leader may do must end."""


class GracePeriodExceeded(RuntimeFailure):
    """Controllers did not end their work in time and were cancelled. (docs/spec: SRV 13)"""

    def __init__(self, names: Iterable[str], seconds: float) -> None:
        super().__init__(f"not ended {seconds:g} s after the stop: {', '.join(sorted(names))}")


class QueueShutDown(Exception):
    """The queue was shut down and hands out no keys."""

"""How programs of plugins are started and how long they may take."""

from collections.abc import Mapping

import msgspec

from pinnace.plugins.calling import DEFAULT_DEADLINES, Deadlines


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times, in seconds.

    Attributes:
        start: until the plugin listens. (docs/spec: PLG 4)
        stop: between asking it to end and killing it. (docs/spec: PLG 10)
        notice: how long to wait for the exit of a process that closed its connection, to report how it ended.
    """

    start: float = 60.0
    stop: float = 2.0
    notice: float = 0.5


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How programs are started.

    Attributes:
        log_level, features: the server's.
        environ: what plugins inherit.
    """

    environ: Mapping[str, str]
    log_level: str = "info"
    features: frozenset[str] = frozenset()
    limits: ProcessLimits = msgspec.field(default_factory=ProcessLimits)
    deadlines: Deadlines = DEFAULT_DEADLINES

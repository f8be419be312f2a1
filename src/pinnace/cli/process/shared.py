"""Flags and checks that the processes share: `server`, `node-agent`, `nonadmin server`."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pinnace.aio.gc_thresholds import collect_as_usual
from pinnace.cli.connect import cluster_of
from pinnace.cli.declaring.fields import Options, flag, text
from pinnace.cli.declaring.types import Enum
from pinnace.cli.declaring.values import ADDRESS
from pinnace.cli.errors import CommandError, InvalidInput, LeaseLost
from pinnace.cli.settings import Settings

if TYPE_CHECKING:
    from pinnace.kube.transport.config import ClusterConfig

T = TypeVar("T")

LEVELS: Final = ("trace", "debug", "info", "warning", "error", "fatal", "panic")


class LoggingFlags(Options):
    """The flags of a process for its log."""

    log_level: str = flag(type=Enum(*LEVELS), default="info", help="Lowest level written.")
    log_format: str = flag(type=Enum("text", "json"), default="text", help="Form of log lines.")


class MonitoringOptions(LoggingFlags):
    """The flags of server and node agent for log, metrics and probes."""

    metrics_address: str = text(
        default=":8085", value=ADDRESS, help="Address of /metrics, /healthz, /readyz."
    )


def check_address(flag: str, text: str) -> None:
    """Refuse an address that is not of the form `host:port`. Raises InvalidInput."""
    from pinnace.server.monitoring.pages import parse_address

    try:
        parse_address(text)
    except ValueError as error:
        raise InvalidInput(f"{flag}: {error}") from error


@contextmanager
def process_errors(*expected: type[Exception]) -> Iterator[None]:
    """Turn every bad end of a server's process into CommandError.

    Args:
        expected: errors beside those of the cluster, the system and the runtime.
    """
    from pinnace.api.values.error_texts import error_text
    from pinnace.kube.errors import KubeError
    from pinnace.runtime.errors import LeadershipLost, RuntimeFailure

    kinds: tuple[type[Exception], ...] = (KubeError, RuntimeFailure, OSError, *expected)
    try:
        yield
    except LeadershipLost as error:
        raise LeaseLost(f"{error}. This process ends and is to be started again, as a standby.") from error
    except kinds as error:
        raise CommandError(error_text(error)) from error


def run_process(settings: Settings, work: "Callable[[ClusterConfig], Coroutine[Any, Any, T]]") -> T:
    """Run a process to its end, on the cluster that the settings name. Raises ConfigError, too."""
    config = cluster_of(settings)
    collect_as_usual()
    return asyncio.run(work(config))


def scratch_folder() -> Path | None:
    """The folder for temporary files and caches; None for that of the system."""
    scratch = os.environ.get("VELERO_SCRATCH_DIR")
    return Path(scratch) if scratch else None


def at_least_one(flag: str, count: int) -> int:
    """The count. Raises InvalidInput if it is less than 1."""
    if count < 1:
        raise InvalidInput(f"{flag} must be at least 1")
    return count

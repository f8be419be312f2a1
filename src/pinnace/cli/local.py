"""Shows a run without a server on the command line: its progress, its messages, its exit code.

The run itself is in `pinnace.operations.local`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.common.outcome import say
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import InvalidInput
from pinnace.cli.output.cells import empty_warning
from pinnace.cli.output.summary import counted
from pinnace.cli.progress.away import away
from pinnace.cli.progress.state import Amount, State
from pinnace.cli.progress.view import ProgressView
from pinnace.cli.settings import Settings
from pinnace.context import Activity
from pinnace.operations.local import InvalidRun, LocalRun, Observer

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient


@asynccontextmanager
async def open_run(
    settings: Settings, what: str, *, progress: str = "auto", create: bool = False
) -> AsyncIterator[tuple[LocalRun, ProgressView]]:
    """Open the cluster and the location of the settings for one run, and show its progress until it ends.

    Args:
        what: `backup` or `restore`.
        progress: how it is shown.
        create: make the folder of the location if it does not exist.

    Raises:
        InvalidInput: the location cannot be used, or the run is not valid; nothing was done.
    """
    assert settings.location is not None
    async with (
        LocationBackend.open(settings.location, namespace=settings.namespace, create=create) as location,
        open_cluster(settings) as client,
    ):
        activity = Activity()
        view = ProgressView(what, form=progress, details=partial(_details, activity, client))
        client.silence.is_shown = progress != "none"
        async with _ticking(view):
            try:
                run = LocalRun(
                    client=client,
                    location=location.location,
                    store=location.store,
                    namespace=settings.namespace,
                    kubeconfig=settings.kubeconfig or "",
                    features=settings.features,
                    progress=view.publish,
                    activity=activity,
                    observer=_Printer(location.title),
                )
                yield run, view
            except InvalidRun as error:
                raise InvalidInput(str(error)) from error


def _details(activity: Activity, client: "KubeClient", done: int, total: int) -> State:
    # The numbers that are published come once a second.
    done, total = max(done, activity.done), max(total, activity.total)
    if activity.collected is not None:
        done = total = activity.collected
    upload = Amount(done=activity.sent_bytes, total=activity.upload_bytes)
    return State(
        done=done,
        total=total,
        at_least=activity.collected is None and (bool(activity.unknown) or not total),
        is_estimate=activity.collected is None,
        kinds={
            name: Amount(
                done=reading.done,
                total=reading.total,
                at_least=not reading.is_final,
                lists=reading.lists,
                lists_done=reading.lists_done,
            )
            for name, reading in activity.kinds.items()
        },
        hooks=tuple(activity.hooks),
        waiting=tuple(activity.waiting),
        upload=upload if upload.total else None,
        download_bytes=_size_of(activity.downloading),
        away=away(client),
    )


def _size_of(path: Path | None) -> int | None:
    if path is None:
        return None
    try:
        return path.stat().st_size
    except OSError:  # it does not exist yet, or no longer
        return 0


@asynccontextmanager
async def _ticking(view: ProgressView) -> AsyncIterator[None]:
    """Draw the view each second until the context ends; its last line stays."""
    ticker = asyncio.create_task(view.tick(), name="progress")
    try:
        yield
    finally:
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)
        view.close()


class _Printer(Observer):
    """Prints warnings and the start of a run."""

    def __init__(self, title: str) -> None:
        self._title = title

    def warn(self, text: str) -> None:
        say(f"WARNING: {text}", err=True)

    def started(self, what: Backup | Restore) -> None:
        name = what.metadata.name
        if isinstance(what, Backup):
            say(f"Backing up to {self._title} as {name}.")
        else:
            say(f"Restoring backup {what.spec.backup_name} from {self._title} as {name}.")


def say_outcome(what: str, run: Backup | Restore, items: int) -> None:
    """Print how the run ended."""
    name, status = run.metadata.name, run.status
    say(
        f"{what} {name} {status.phase}: {counted(items, 'item')}{_duration(run)}, "
        f"{counted(status.errors, 'error')}, {counted(status.warnings, 'warning')}."
    )
    if warning := empty_warning(what.lower(), status.phase, items):
        say(warning, err=True)
    if status.failure_reason:
        say(f"Reason: {status.failure_reason}", err=True)


def _duration(run: Backup | Restore) -> str:
    start, end = run.status.start_timestamp, run.status.completion_timestamp
    return f" in {(end - start).total_seconds():.1f}s" if start is not None and end is not None else ""

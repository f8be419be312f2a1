"""Shows a run without a server on the command line: its progress, its messages, its exit code.

The run itself is in `pinnace.operations.local`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pinnace.api.values.counts import counted
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.cli.common.outcome import say
from pinnace.cli.connect import caller, open_cluster
from pinnace.cli.errors import InvalidInput
from pinnace.cli.identities import given_identities
from pinnace.cli.output.cells import empty_warning
from pinnace.cli.output.summary import became
from pinnace.cli.progress.showing import showing
from pinnace.cli.progress.view import ProgressView
from pinnace.cli.settings import Settings
from pinnace.client.location import LocationBackend
from pinnace.operations.local import InvalidRun, LocalRun, Observer
from pinnace.runs.activity import Activity


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
        LocationBackend.open(
            settings.location,
            caller(),
            namespace=settings.namespace,
            create=create,
            identities=given_identities(settings),
        ) as location,
        open_cluster(settings) as client,
    ):
        activity = Activity()
        async with showing(what, activity, client, form=progress) as view:
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
    """Print how the run ended, and what became of how many objects."""
    name, status = run.metadata.name, run.status
    counts = [f"{counted(items, 'item')}{became(run.metadata.annotations)}{_duration(run)}"]
    if status.errors or not status.failure_reason:  # "0 errors" beside Failed contradicts itself
        counts.append(counted(status.errors, "error"))
    say(f"{what} {name} {status.phase}: {', '.join([*counts, counted(status.warnings, 'warning')])}.")
    if warning := empty_warning(what.lower(), status.phase, items):
        say(warning, err=True)
    if status.failure_reason:
        say(f"Reason: {status.failure_reason}", err=True)


def _duration(run: Backup | Restore) -> str:
    start, end = run.status.start_timestamp, run.status.completion_timestamp
    return f" in {(end - start).total_seconds():.1f}s" if start is not None and end is not None else ""

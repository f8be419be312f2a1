"""Shows the progress of a run that takes place in this process, from the activity that the run keeps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.cli.progress.away import away
from pinnace.cli.progress.state import Amount, State
from pinnace.cli.progress.view import ProgressView

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient
    from pinnace.runs.activity import Activity


@asynccontextmanager
async def showing(
    what: str, activity: "Activity", client: "KubeClient", *, form: str
) -> AsyncIterator[ProgressView]:
    """Draw the progress each second until the context ends; its last line stays.

    Args:
        what: `backup`, `restore` or `dry run`.
        form: as of `ProgressView`.
    """
    view = ProgressView(what, form=form, details=partial(_details, activity, client))
    client.silence.is_shown = form != "none"
    ticker = asyncio.create_task(view.tick(), name="progress")
    try:
        yield view
    finally:
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)
        view.close()
        client.silence.is_shown = False


def _details(activity: "Activity", client: "KubeClient", done: int, total: int) -> State:
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

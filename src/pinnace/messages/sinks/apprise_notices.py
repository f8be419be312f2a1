"""`apprise`: every service that Apprise knows; needs the extra `pinnace[notify]`."""

import asyncio
import threading
from collections.abc import Sequence

from msgspec import Struct

from pinnace.messages.errors import SinkError
from pinnace.messages.problem import Notification
from pinnace.messages.settings import AppriseSettings

_BUSY = threading.BoundedSemaphore(4)
"""Threads that Apprise may hold: a service that hangs holds one until its own limit ends it."""


class AppriseSink(Struct, frozen=True, kw_only=True):
    """Sends by Apprise, which blocks, in a daemon thread that nothing waits for."""

    settings: AppriseSettings
    batch: int = 50
    takes_runs: bool = False
    refresh_seconds: float | None = None

    async def send(self, messages: Sequence[Notification]) -> None:
        """See Sink."""
        try:
            import apprise
        except ImportError as error:
            raise SinkError("Apprise is not installed: install pinnace[notify]") from error
        if not _BUSY.acquire(blocking=False):
            raise SinkError("Apprise is busy with services that do not answer")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        title = messages[0].title + (f" and {len(messages) - 1} more" if len(messages) > 1 else "")
        body = "\n\n".join(f"{each.title}\n{each.body}" for each in messages)

        def settle(outcome: bool) -> None:
            if not done.done():
                done.set_result(outcome)

        def call() -> None:
            outcome = False
            try:
                service = apprise.Apprise()
                outcome = bool(
                    service.add(self.settings.url)
                    and service.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT)
                )
            except Exception:  # noqa: BLE001 - of whatever service: its text could have the URL, a secret
                outcome = False
            finally:
                _BUSY.release()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=call, name="apprise", daemon=True).start()
        if not await done:
            raise SinkError("Apprise could not deliver: its URL is not valid, or its service refused")

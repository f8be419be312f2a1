"""Says that the API server is away, and that it is back, while a command waits for it.

An outage is waited out for minutes (docs/adr/010), which would look like a command that hangs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.cli.guard import complain

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient

AWAY_SECONDS: Final = 10.0
"""A silence of this length is shown. A busy server takes a few seconds for a large page of a list."""
_LOOK_SECONDS: Final = 1.0
_NEXT_FACTOR: Final = 3
"""Without a display it is said again after three times as long: at 10, 30 and 90 seconds."""


class Away(msgspec.Struct, frozen=True, kw_only=True):
    """An API server that has not answered for some time.

    Attributes:
        patience_seconds: how long a request is waited for, from when it was first sent.
        has_errors: whether it answers, but with its own errors only.
        is_waited_for: whether a request waits for it.
    """

    seconds: float
    patience_seconds: float
    has_errors: bool = False
    is_waited_for: bool = True

    @property
    def text(self) -> str:
        """`the API server has not answered for 31 s; waiting up to 5m`."""
        what = "has answered with errors only" if self.has_errors else "has not answered"
        text = f"the API server {what} for {self.seconds:.0f} s"
        patience = _short(self.patience_seconds)
        # An attempt that began in time is waited for, so that it takes a little longer than the patience.
        if not self.is_waited_for or self.seconds >= self.patience_seconds:
            return f"{text}; requests that waited for {patience} are given up"
        return f"{text}; waiting up to {patience}"

    @property
    def over(self) -> str:
        """The text once the server answers again."""
        return f"The API server answers again, after {self.seconds:.0f} s."


def away(client: "KubeClient") -> Away | None:
    """How the API server of a client is away; None if it is not."""
    silence = client.silence
    if silence.seconds < AWAY_SECONDS:
        return None
    return Away(
        seconds=silence.seconds,
        patience_seconds=silence.patience_seconds,
        has_errors=silence.has_errors,
        is_waited_for=silence.is_waited_for,
    )


@asynccontextmanager
async def saying_when_away(client: "KubeClient", *, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[None]:
    """Print it on stderr inside the context, unless a display of progress shows it already."""
    # Not in a task group, which would wrap the errors of the caller's own code.
    task = asyncio.create_task(_say(client, clock), name="API server away")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _say(client: "KubeClient", clock: Clock) -> None:
    said: Away | None = None
    next_seconds = AWAY_SECONDS
    while True:
        await clock.sleep(_LOOK_SECONDS)
        now = None if client.silence.is_shown else away(client)
        if now is None:
            if said is not None:
                complain(said.over)
            said, next_seconds = None, AWAY_SECONDS
        else:
            if now.seconds >= next_seconds:
                complain(f"{now.text[0].upper()}{now.text[1:]} (--api-timeout).")
                next_seconds *= _NEXT_FACTOR
            said = now


def _short(seconds: float) -> str:
    """`5m`, `1m30s`, `10s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes and rest else f"{minutes}m" if minutes else f"{rest}s"

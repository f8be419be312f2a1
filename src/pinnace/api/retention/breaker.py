"""Holds back deletions that nobody could expect. Pure. (docs/adr/128)

    at most MOST_UNANNOUNCED ──────────────> all go
    more, announced a day ago or confirmed ─> these go
    more, new ──────────────────────────────> announced; they wait for a day, or for a confirmation

A schedule that begins to flap, or a rule that was mistyped, thus deletes nothing for a day. The announcement
is an annotation of the Schedule, so that a restart does not lose it: for each time the backups that were
announced then, by a digest of name and uid, as names of hundreds would not fit. A backup that a later pass
keeps loses its announcement.
"""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

import msgspec

from pinnace.api.values.times import format_time, known_time, later

MOST_UNANNOUNCED: Final = 10
NOTICE: Final = timedelta(days=1)
_MOST_ANNOUNCED: Final = 2000
"""At once; more wait for their turn. They take 40 KiB of the 256 that an object's annotations have."""
_DIGITS: Final = 16

Announced = Mapping[str, datetime]
"""When each backup was announced, by its digest."""


class BreakerDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What may go now.

    Attributes:
        go: the digests of backups that may be deleted.
        wait: those that wait.
        announced: what is to be kept until the next pass.
    """

    go: Set[str]
    wait: Set[str]
    announced: dict[str, datetime]

    @property
    def confirmable(self) -> datetime | None:
        """The time of a confirmation that lets all go that are announced now; None if nothing waits."""
        return max((self.announced[each] for each in self.wait if each in self.announced), default=None)

    @property
    def next_at(self) -> datetime | None:
        """When the first of those that wait goes by itself."""
        first = min((self.announced[each] for each in self.wait if each in self.announced), default=None)
        return None if first is None else later(first, NOTICE)


def digest(name: str, uid: str) -> str:
    """Stands for a Backup in an announcement: one that is made again under its name is another one."""
    return sha256(f"{name}\n{uid}".encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


def hold_back(
    going: Sequence[str], announced: Announced, *, confirmed: datetime | None, now: datetime
) -> BreakerDecision:
    """Decide which deletions may be carried out now.

    Args:
        going: the digests of all backups that no rule keeps, the oldest first.
        announced: as the pass before left it. A time that lies ahead of now counts as now: a clock was wrong.
        confirmed: what was announced by then goes.
    """
    since = {each: min(announced[each], now) for each in going if each in announced}
    due = {
        each
        for each, moment in since.items()
        if later(moment, NOTICE) <= now or (confirmed is not None and moment <= confirmed)
    }
    rest = [each for each in going if each not in due]
    if len(rest) <= MOST_UNANNOUNCED:
        # Announcements stay until the backups are gone: a deletion may fail and be tried again.
        return BreakerDecision(go=set(going), wait=set(), announced=since)
    told = since | {each: now for each in rest if each not in since}
    kept = dict(sorted(told.items(), key=lambda item: item[1])[:_MOST_ANNOUNCED])
    return BreakerDecision(go=due, wait=set(rest), announced=kept)


def read_announced(text: str) -> dict[str, datetime]:
    """The announcements of an annotation; none if it cannot be read, so that everything waits again."""
    try:
        stored = msgspec.json.decode(text or "{}", type=dict[str, list[str]])
    except msgspec.DecodeError:
        return {}
    return {
        each: moment
        for when, digests in stored.items()
        if (moment := known_time(when)) is not None
        for each in digests
    }


def write_announced(announced: Announced) -> str:
    """The annotation of announcements; empty without any."""
    by_time: dict[str, list[str]] = {}
    for each, moment in sorted(announced.items(), key=lambda item: (item[1], item[0])):
        by_time.setdefault(format_time(moment), []).append(each)
    return msgspec.json.encode(by_time).decode() if by_time else ""

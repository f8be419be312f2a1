"""Objects that cannot be used as they are: left alone for longer each time, and reported once a day. Pure.

An object that the API server refuses, or that cannot be read, does not change by being tried again, and its
author may have written any number of them. The caller gives the time.
"""

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=1)
MOST: Final = 10_000
"""Beyond this many, further ones are not remembered: they are looked at again, one pass after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    wait: timedelta
    until: datetime
    told: datetime


class SetAside(Generic[K]):
    """Remembers which objects are set aside, and until when."""

    def __init__(self) -> None:
        self._entries: dict[K, _Entry] = {}

    def __contains__(self, key: K) -> bool:
        """Whether an object could not be used when it was last looked at."""
        return key in self._entries

    def waits(self, key: K, now: datetime) -> bool:
        """Whether an object is not to be looked at yet."""
        entry = self._entries.get(key)
        return entry is not None and now < entry.until

    def put(self, key: K, now: datetime) -> bool:
        """Set an object aside, for twice as long as the last time; returns whether to report it."""
        entry = self._entries.get(key)
        wait = FIRST if entry is None else min(entry.wait * 2, LONGEST)
        is_news = entry is None or now - entry.told >= LONGEST
        if entry is not None or len(self._entries) < MOST:
            told = now if entry is None or is_news else entry.told
            self._entries[key] = _Entry(wait=wait, until=now + wait, told=told)
        return is_news

    def forget(self, key: K) -> None:
        """Forget that an object was set aside: the next time counts as its first."""
        self._entries.pop(key, None)

    def keep_only(self, keys: Collection[K]) -> None:
        """Forget all objects but these: the others are gone."""
        self._entries = {key: entry for key, entry in self._entries.items() if key in keys}

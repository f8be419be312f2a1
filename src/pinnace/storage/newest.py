"""The newest signed backups of a location: what the next one names as its predecessors. (ADR 125)

A chain of manifests cannot show that its last link is gone. So the newest ones are noted: in the location,
for whoever makes backups without a server, and by a server outside of it too.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec
import orjson

MOST_NEWEST: Final = 32
"""Backups that ended at once and have no successor yet; the oldest are dropped beyond it."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME: Final = 253


class Link(msgspec.Struct, frozen=True):
    """A signed backup, by the digest of its manifest's file."""

    backup: str
    sha256: str

    def __str__(self) -> str:
        """As annotations have it."""
        return f"{self.backup}@{self.sha256}"


class NewestOutside(Protocol):
    """The newest signed backups as they are noted where the location's owner cannot write."""

    @property
    def links(self) -> Sequence[Link]:
        """What was noted when the location was opened."""
        ...

    async def note(self, added: Link, replaced: Sequence[Link]) -> None:
        """Note a further backup, whose predecessors need no note any more."""
        ...


def links_of(value: Any) -> list[Link]:
    """The links in a decoded JSON text that may be anything; what is none is left out."""
    links = [
        Link(each["backup"], each["sha256"])
        for each in (value if isinstance(value, list) else ())
        if isinstance(each, dict)
        and isinstance(each.get("backup"), str)
        and isinstance(each.get("sha256"), str)
        and 0 < len(each["backup"]) <= _LONGEST_NAME
        and _DIGEST.fullmatch(each["sha256"])
    ]
    return unique_links(links)[-MOST_NEWEST:]


def links_of_text(text: str) -> list[Link]:
    """The links of an annotation."""
    parts = (word.rpartition("@") for word in text.split())
    return links_of([{"backup": backup, "sha256": digest} for backup, _, digest in parts])


def encode_links(links: Iterable[Link]) -> bytes:
    """The links as JSON."""
    return orjson.dumps([{"backup": each.backup, "sha256": each.sha256} for each in links])


def unique_links(links: Iterable[Link]) -> list[Link]:
    """The links, each once."""
    return list(dict.fromkeys(links))


def after(noted: Iterable[Link], added: Link, replaced: Sequence[Link]) -> list[Link]:
    """What is newest after a further backup: it, and those that ended beside it."""
    return [*(link for link in unique_links(noted) if link not in replaced and link != added), added][
        -MOST_NEWEST:
    ]

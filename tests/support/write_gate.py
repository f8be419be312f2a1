"""Rules for fault proxies that let a server do so many writes, and then nothing any more.

What such a server leaves behind, killed when the gate has closed, is what a power cut between two writes
leaves; with every number in turn, between any two.
"""

import asyncio
import re

from hack.cluster.faults import RequestHead, Rule, RuleList, Stall

READS = frozenset({"GET", "HEAD", "OPTIONS"})


class WriteGate(RuleList):
    """To be put into the proxies of everything a server writes to, as their `rules`.

    Args:
        lifetime: how many writes pass; None: all, for ever.
        counted: regular expression of the paths whose writes are counted; others pass as long as it is open.
    """

    def __init__(self, lifetime: int | None = None, counted: str = "") -> None:
        super().__init__()
        self.closed = asyncio.Event()
        """Set when a write came that was one too many. It hangs, and so does all that comes after it."""
        self.passed: list[str] = []
        """Method and path of the writes that were counted."""
        self._lifetime = lifetime
        self._counted = re.compile(counted)
        self._hold = Rule(Stall())

    def choose(self, head: RequestHead) -> Rule | None:
        """Let a request through, or hold it."""
        if self.closed.is_set():
            return self._hold
        if head.method in READS or not self._counted.search(head.path):
            return None
        if self._lifetime is not None and len(self.passed) >= self._lifetime:
            self.closed.set()
            return self._hold
        self.passed.append(f"{head.method} {head.path}")
        return None

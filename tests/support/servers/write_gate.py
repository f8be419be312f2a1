"""Rules for fault proxies that let a number of writes of a server pass, and then nothing more.

A server that is killed when the gate has closed leaves the same as after a power cut between two writes;
with every number in turn, between any two.
"""

import asyncio
import re

from hack.cluster.faults import RequestHead, Rule, RuleList, Stall

READS = frozenset({"GET", "HEAD", "OPTIONS"})


class WriteGate(RuleList):
    """The `rules` of the proxies of everything that a server writes to.

    Args:
        lifetime: how many writes pass; None: all, for ever.
        counted: regular expression of the paths whose writes are counted; others pass as long as it is open.
    """

    def __init__(self, lifetime: int | None = None, counted: str = "") -> None:
        super().__init__()
        self.closed = asyncio.Event()
        """Set when the first write is held; it hangs, and so do all later requests."""
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

"""The progress of a run as it is stored or shown."""

from collections.abc import Awaitable, Callable

ProgressSink = Callable[[int, int], Awaitable[None]]
"""Keeps or shows the total of items and the items done; raises KubeError if it cannot."""

"""Clocks that cannot be trusted with what cannot be undone: by one that is ahead, everything has expired."""

from datetime import timedelta
from typing import Final

from pinnace.kube.client import KubeClient

DOUBTFUL: Final = timedelta(minutes=2)
"""From this difference to the API server's clock on, nothing is deleted because of its age."""


def clock_doubt(client: KubeClient) -> str:
    """Why nothing may be deleted because of its age now; empty if the API server's clock agrees with ours.

    The client knows the difference from the last answer that it got.
    """
    difference = client.clock_difference
    if difference is None or abs(difference) < DOUBTFUL:
        return ""
    relation = "ahead of" if difference > timedelta() else "behind"
    seconds = abs(difference).total_seconds()
    return (
        f"the API server's clock is {seconds:.0f} seconds {relation} this server's: set the wrong one by NTP"
    )

"""Control groups of the nodes: a top-level group in every hierarchy, made before and removed after.

Works with version 1, version 2, and both mounted side by side. The kubelet requires its `cgroupRoot` to exist
everywhere, and leaves the groups that it made below.
"""

import contextlib
import time
from pathlib import Path

from hack.cluster.errors import ClusterError

REMOVE_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.05


def hierarchies(mounts: str | None = None) -> list[Path]:
    """Return the mount points of all hierarchies.

    Args:
        mounts: text in the form of /proc/self/mounts, which is read when left out.
    """
    lines = (mounts if mounts is not None else Path("/proc/self/mounts").read_text()).splitlines()
    fields = [line.split() for line in lines]
    return [Path(mount) for _, mount, kind, *_ in fields if kind in ("cgroup", "cgroup2")]


def create(name: str) -> None:
    """Make the group; one that exists is fine."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        _delegate(hierarchy)
        group.mkdir(exist_ok=True)
        _delegate(group)


def groups(pattern: str) -> list[Path]:
    """Return the top-level groups whose name matches, in all hierarchies."""
    return [group for hierarchy in hierarchies() for group in hierarchy.glob(pattern) if group.is_dir()]


def remove(pattern: str, *, timeout_seconds: float = REMOVE_TIMEOUT_SECONDS) -> None:
    """Remove the matching groups with all below them, once their processes have gone.

    Raises:
        ClusterError: one is still in use after the timeout.
    """
    deadline = time.monotonic() + timeout_seconds
    while left := groups(pattern):
        for group in left:
            _remove_tree(group)
        if not groups(pattern):
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"control groups still in use: {', '.join(map(str, left))}")
        time.sleep(POLL_SECONDS)


def _delegate(group: Path) -> None:
    """Version 2: hand every controller to the groups below. Version 1 has no such file."""
    try:
        offered = set((group / "cgroup.controllers").read_text().split())
        delegated = set((group / "cgroup.subtree_control").read_text().split())
    except FileNotFoundError:
        return
    for controller in sorted(offered - delegated):
        # Some cannot be handed on (a group with real-time processes keeps `cpu`); the kubelet says which
        # one it misses.
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _remove_tree(group: Path) -> None:
    below = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
    for path in [*below, group]:  # reversed names: children before parents
        with contextlib.suppress(OSError):  # in use: the caller looks again
            path.rmdir()

"""Whether the directory of a volume is a mount, as it must be for most kinds of volumes. (docs/adr/074)

The kubelet makes the directory, and mounts the volume over it. Where the mount is gone, an empty directory on
the disk of the node is left. Saving it would lose the data without a word, and so would filling it.
"""

import os
from pathlib import Path
from typing import Final

from pinnace.api.objects import JSONObject, mapping, text

_UNMOUNTED: Final = frozenset(
    ("configMap", "downwardAPI", "emptyDir", "flexVolume", "gitRepo", "hostPath", "projected", "secret")
)
"""The kinds of volumes that are, or may be, mere directories. A driver of flexVolume decides itself."""

_OPEN: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def must_be_mounted(volume: JSONObject, persistent: JSONObject | None) -> bool:
    """Whether a volume is a mount wherever a container uses it: pure.

    Args:
        volume: its entry in `spec.volumes` of the pod.
        persistent: the PersistentVolume of its claim; None without a claim.
    """
    if persistent is not None:
        return _UNMOUNTED.isdisjoint(mapping(persistent, "spec"))
    if text(volume, "emptyDir", "medium"):
        return True
    return _UNMOUNTED.isdisjoint(volume)


def is_mount_point(directory: Path) -> bool:
    """Whether a directory is the root of a mount, also of a bind mount within one file system.

    Raises:
        OSError: it cannot be opened.
    """
    return _mount_id(directory) != _mount_id(directory.parent)


def _mount_id(directory: Path) -> int:
    """The id of the mount that a directory is in; the kernel tells it of an open one."""
    descriptor = os.open(directory, _OPEN)
    try:
        told = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    finally:
        os.close(descriptor)
    return next(int(line.partition(":")[2]) for line in told.splitlines() if line.startswith("mnt_id:"))

"""Collaborators of a backup that is only counted: nothing is written, and no hook or snapshot is made."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pinnace.api.objects import JSONObject, text
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.archive.paths import ITEM_SUFFIX, parse_item_path
from pinnace.archive.runlog import RunLog
from pinnace.archive.tarformat import MemberDirectory
from pinnace.hooks.backup_selection import PodHook
from pinnace.volumes.pods.in_flight import VolumesInFlight


@dataclass(slots=True)
class Counted:
    """The items of a kind in a namespace, and the size of their JSON."""

    items: int = 0
    size_bytes: int = 0


class CountingWriter:
    """Counts items in place of writing them. The copies of an item under several versions count once.

    Attributes:
        counts: by group-resource and namespace; the namespace of cluster-scoped items is empty.
    """

    is_full = False

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], Counted] = {}

    def add_copies(
        self, directories: Iterable[MemberDirectory], name: str, head: bytes, rest: bytes | memoryview
    ) -> None:
        """Count an item by the first of its directories."""
        directory = next(iter(directories), None)
        location = parse_item_path(f"{directory.path}x{ITEM_SUFFIX}") if directory is not None else None
        if location is not None:
            counted = self.counts.setdefault((location.group_resource, location.namespace), Counted())
            counted.items += 1
            counted.size_bytes += len(head) + len(rest)

    async def flush_if_full(self) -> None:
        """Do nothing: nothing is kept."""


@dataclass(slots=True)
class BackupNotes:
    """The work of a backup besides saving objects, noted in place of being done.

    It stands in for the collaborators that run hooks and save volumes.

    Attributes:
        volumes: each as a name and how it would be saved.
        hooks: each as `namespace/pod` and its command.
    """

    volumes: list[tuple[str, str]] = field(default_factory=list)
    hooks: list[tuple[str, str]] = field(default_factory=list)

    pod_volume_backups: ClassVar[Sequence[JSONObject]] = ()
    snapshots: ClassVar[Sequence[VolumeSnapshot]] = ()

    async def run(self, hook: PodHook, pod: JSONObject, log: RunLog) -> None:
        """Note a hook."""
        self.hooks.append((_title(pod), " ".join(hook.exec.command)))

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
        """Note the volumes of a pod."""
        title = _title(pod)
        self.volumes += [(f"{title}/{volume}", "from its files") for volume in volumes]
        return VolumesInFlight()

    async def snapshot(self, volume: JSONObject, log: RunLog) -> Sequence[Exception]:
        """Note a volume that a snapshot would be taken of, if a snapshot location knows it."""
        name = text(volume, "metadata", "name")
        self.volumes.append((name, "by a snapshot, if a snapshot location knows the volume"))
        return ()


def _title(pod: JSONObject) -> str:
    return f"{text(pod, 'metadata', 'namespace')}/{text(pod, 'metadata', 'name')}"

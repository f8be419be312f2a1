"""Collaborators of a backup that is only counted: nothing is written, and no hook or snapshot is made."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    """The work of a backup besides saving objects, as it would be done.

    Attributes:
        volumes: each as a name and how it would be saved.
        hooks: each as `namespace/pod` and its command.
    """

    volumes: list[tuple[str, str]] = field(default_factory=list)
    hooks: list[tuple[str, str]] = field(default_factory=list)


class NotedHooks:
    """Notes the hooks that would run."""

    def __init__(self, notes: BackupNotes) -> None:
        self._notes = notes

    async def run(self, hook: PodHook, pod: JSONObject, log: RunLog) -> None:
        """Note a hook."""
        title = f"{text(pod, 'metadata', 'namespace')}/{text(pod, 'metadata', 'name')}"
        self._notes.hooks.append((title, " ".join(hook.exec.command)))


class NotedPodVolumes:
    """Notes the pod volumes that would be saved from their files."""

    pod_volume_backups: Sequence[JSONObject] = ()

    def __init__(self, notes: BackupNotes) -> None:
        self._notes = notes

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
        """Note the volumes of a pod."""
        title = f"{text(pod, 'metadata', 'namespace')}/{text(pod, 'metadata', 'name')}"
        self._notes.volumes += [(f"{title}/{volume}", "from its files") for volume in volumes]
        return VolumesInFlight()


class NotedSnapshots:
    """Notes the volumes of which a snapshot would be taken, if a snapshot location knows them."""

    snapshots: Sequence[VolumeSnapshot] = ()

    def __init__(self, notes: BackupNotes) -> None:
        self._notes = notes

    async def snapshot(self, volume: JSONObject, log: RunLog) -> Sequence[Exception]:
        """Note a volume."""
        name = text(volume, "metadata", "name")
        self._notes.volumes.append((name, "by a snapshot, if a snapshot location knows the volume"))
        return ()

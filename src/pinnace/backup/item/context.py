"""The context of the engine's steps: the request, the cluster, the archive and the log."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.velero.backup import Backup
from pinnace.archive.paths import item_head, version_dir
from pinnace.archive.runlog import RunLog
from pinnace.archive.tarformat import MemberDirectory
from pinnace.backup.actions import BackupActions
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.backup.errors import ItemFailed
from pinnace.backup.filters import ExcludedItems, LeftOutByPolicy
from pinnace.backup.item.tracking import Tracker
from pinnace.backup.item.volume_records import VolumeRecords
from pinnace.backup.plan import BackupFilter
from pinnace.backup.progress import item_fields
from pinnace.hooks.backup_selection import HookChoice
from pinnace.hooks.counts import HookCounts
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import notice_of
from pinnace.plugins.item_operations import ItemOperation
from pinnace.runs.activity import Activity
from pinnace.runs.progress import ProgressReporter
from pinnace.volumes.selection import HandledClaims


class ItemWriter(Protocol):
    """Takes the items of a backup; `ArchiveWriter` writes them into a tarball."""

    def add_copies(
        self, directories: Iterable[MemberDirectory], name: str, head: bytes, rest: bytes | memoryview
    ) -> None:
        """Take a file that is stored in each of the directories."""

    @property
    def is_full(self) -> bool:
        """Whether `flush_if_full` has something to do."""

    async def flush_if_full(self) -> None:
        """Write the items that were taken, if they fill a batch. Raises ArchiveWriteError."""


class BackupRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the engine. Made once, passed to each step.

    Attributes:
        operations: those that actions have started so far.
        hooked: held by the pod with hooks that is being backed up.
    """

    backup: Backup
    scope: BackupFilter
    client: ClusterReader
    discovery: Discovery
    writer: ItemWriter
    log: RunLog
    progress: ProgressReporter
    actions: BackupActions
    hooks: HookChoice
    collaborators: BackupCollaborators
    activity: Activity = msgspec.field(default_factory=Activity)
    tracker: Tracker = msgspec.field(default_factory=Tracker)
    claims: HandledClaims = msgspec.field(default_factory=HandledClaims)
    excluded: ExcludedItems = msgspec.field(default_factory=ExcludedItems)
    left_out: LeftOutByPolicy = msgspec.field(default_factory=LeftOutByPolicy)
    volumes: VolumeRecords = msgspec.field(default_factory=VolumeRecords)
    hook_counts: HookCounts = msgspec.field(default_factory=HookCounts)
    operations: list[ItemOperation] = msgspec.field(default_factory=list)
    clock: Clock = SYSTEM_CLOCK
    hooked: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def report(self, failure: ItemFailed, group_resource: str, namespace: str, name: str) -> None:
        """Log every error of an item that is not in the backup; each line counts. (docs/spec: BKP 3.4)"""
        for error in failure.errors:
            self.log.error(
                notice_of(error, Code.ITEM_NOT_SAVED, "Error backing up item"),
                error=error,
                **item_fields(group_resource, namespace, name),
            )


def item_heads(discovery: Discovery, asked: APIResource, api_version: str) -> tuple[str, ...]:
    """The directories of an item in the archive: versioned, and plain for the preferred version.

    An item that came in another version than the preferred one that was asked for is stored plainly too:
    its conversion webhook does not answer. (docs/spec: BKP 5.3, 14)
    """
    name, version = asked.group_resource, api_version.rpartition("/")[2]
    preferred = discovery.preferred(name)
    preferred_version = preferred.version if preferred is not None else ""
    versioned = item_head(name, version_dir(version, version == preferred_version))
    is_plain = preferred_version in (version, asked.version)
    return (versioned, item_head(name, None)) if is_plain else (versioned,)

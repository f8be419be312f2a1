"""The journal of a restore: what a later process cannot see in the cluster if this one dies. (docs/adr/131)

A restore that was interrupted is run again over the same backup. Most of what the dead process did is known
by the labels and times of the objects that it created. The rest is in small files beside the log of the
restore, each written before the change that it is about:

- that the restore began, and when by the clock of the API server;
- namespaces before they are created, as they get no label;
- objects that existed, before they are changed: with the labels of the restore they look created by it;
- Jobs that were created, as a cluster may remove them once they have ended, and they must not run twice;
- volumes of native snapshots, before and after they are made;
- hooks, before and after they run.

A restore into an empty cluster writes a file for its begin, for its namespaces and for its Jobs. Entries
that come while a file is being written share the next one. A location that takes no files has no journal,
which does not disturb the restore.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.values.times import format_time, known_time
from pinnace.api.velero.restore import Restore
from pinnace.hooks.records import HookKey, HookRecord
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.errors import RestoreFailed
from pinnace.storage.errors import NotLeading, StorageError
from pinnace.storage.patience import Patience, impatient

MOST_ENTRIES: Final = 1_000_000
"""The limit for the entries of a journal that is read: a location is not trusted."""

_CLOCK_STEP: Final = timedelta(seconds=2)
"""Creation timestamps have whole seconds, and so has the Date header that tells the API server's time."""


class JournalStore(Protocol):
    """The files of journals; `BackupStore` has them."""

    async def put_restore_journal(
        self, restore: str, owner: str, number: int, entries: Sequence[Mapping[str, Any]]
    ) -> None:
        """Store one file."""
        ...

    async def read_restore_journal(
        self, restore: str, owner: str, *, most: int
    ) -> tuple[list[JSONObject], int]:
        """All entries in their order, and the number of the last file; 0 if there is none."""
        ...


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="about", rename="camel"):
    """An entry of the journal."""


class BegunEntry(JournalEntry, tag="restore", frozen=True, kw_only=True):
    """The restore began.

    Attributes:
        at: the time of the API server then.
        restore: the Restore, where no cluster keeps it.
    """

    at: str
    restore: JSONObject | None = None


class NamespaceEntry(JournalEntry, tag="namespace", frozen=True, kw_only=True):
    """A namespace is about to be created, or was not, as it existed."""

    name: str
    existed: bool = False


class ExistingEntry(JournalEntry, tag="object", frozen=True, kw_only=True):
    """An object that exists is about to be changed.

    Attributes:
        uid: of the object before the change.
        outcome, reason, warning, code: as they are recorded after the change.
    """

    resource: str
    namespace: str
    name: str
    uid: str
    outcome: Outcome
    reason: str = ""
    warning: str = ""
    code: str = ""

    def notice_code(self, default: Code) -> Code:
        """The code of the warning; the default if this version does not know it."""
        return known_code(self.code, default)


class JobEntry(JournalEntry, tag="job", frozen=True, kw_only=True):
    """A Job was created."""

    namespace: str
    name: str


class VolumeEntry(JournalEntry, tag="volume", frozen=True, kw_only=True):
    """A volume is about to be made from a native snapshot, or was made.

    Attributes:
        name: of the PersistentVolume in the backup.
        volume: the PersistentVolume that is created; None while it is not known whether there is one.
    """

    name: str
    volume: JSONObject | None = None


class HookEntry(JournalEntry, tag="hook", frozen=True, kw_only=True):
    """A hook is about to run, or has ended."""

    namespace: str
    pod: str
    container: str
    position: int
    has_ended: bool = False
    failure: str = ""
    code: str = ""


_Any = BegunEntry | NamespaceEntry | ExistingEntry | JobEntry | VolumeEntry | HookEntry


class _Batch:
    """The entries of the next file."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.is_stored = False


class RestoreJournal:
    """The journal of one restore. Until it is begun, nothing is known and nothing is kept.

    Attributes:
        is_resumed: whether an earlier process began the restore.
        problem: why no further entry is kept; empty if all are.
    """

    def __init__(self) -> None:
        self.is_resumed = False
        self.problem = ""
        self._store: JournalStore | None = None
        self._patience = impatient()
        self._name = self._owner = ""
        self._number = 0
        self._batch = _Batch()
        self._writing = asyncio.Lock()
        self._labels: Mapping[str, str] = {}
        self._began: datetime | None = None
        self._namespaces: dict[str, bool] = {}
        self._existing: dict[tuple[str, str, str], ExistingEntry] = {}
        self._jobs: set[tuple[str, str]] = set()
        self._volumes: dict[str, VolumeEntry] = {}
        self._hooks: dict[HookKey, HookRecord] = {}

    async def begin(
        self,
        store: JournalStore,
        restore: Restore,
        labels: Mapping[str, str],
        *,
        now: datetime,
        patience: Patience | None,
        is_resumed: bool,
    ) -> None:
        """Begin the journal of a restore, or read that of the one that is resumed.

        Args:
            labels: of every object of the restore.
            now: the time of the API server.

        Raises:
            RestoreFailed: the restore cannot be resumed.
        """
        self._store, self._patience = store, patience or impatient()
        self._name, self._owner = restore.metadata.name, restore.metadata.uid
        self._labels, self.is_resumed = labels, is_resumed
        if is_resumed and await self._read(store):
            return
        self.is_resumed = False
        kept = None if self._owner else encode(restore)
        begun = BegunEntry(at=format_time(now), restore=kept)
        try:
            await self._put([begun])
        except NotLeading:
            raise
        except StorageError as error:
            self._store, self.problem = None, str(error)

    async def _read(self, store: JournalStore) -> bool:
        """Read the journal of the interrupted run; return whether there is one.

        A run without one did nothing, or its location took no files. Either way, what exists is then left as
        it is, as in a new restore, and so no pod gets its hooks again.
        """
        begun = None
        try:
            found, self._number = await store.read_restore_journal(self._name, self._owner, most=MOST_ENTRIES)
            for entry in found:
                known = self._learn(msgspec.convert(entry, _Any))
                begun = begun or known
        except (StorageError, msgspec.ValidationError) as error:
            raise RestoreFailed(
                f"the restore cannot be resumed, as its journal cannot be read: {error}"
            ) from error
        if not self._number:
            return False
        self._began = known_time(begun.at) if begun is not None else None
        if self._began is None:
            raise RestoreFailed(
                "the restore cannot be resumed, as its journal does not say when it began: make a new restore"
                " of the same backup, which leaves alone what is there"
            )
        return True

    def _learn(self, entry: _Any) -> BegunEntry | None:
        match entry:
            case BegunEntry():
                return entry
            case NamespaceEntry():
                self._namespaces[entry.name] = not entry.existed
            case ExistingEntry():
                self._existing[entry.resource, entry.namespace, entry.name] = entry
            case JobEntry():
                self._jobs.add((entry.namespace, entry.name))
            case VolumeEntry():
                self._volumes[entry.name] = entry
            case HookEntry():
                key = HookKey(
                    namespace=entry.namespace,
                    pod=entry.pod,
                    container=entry.container,
                    position=entry.position,
                )
                failure = (
                    Notice(known_code(entry.code, Code.HOOK_FAILED), entry.failure) if entry.failure else None
                )
                self._hooks[key] = HookRecord(failure=failure, has_ended=entry.has_ended)
        return None

    async def note(self, entry: JournalEntry) -> None:
        """Keep an entry; it is stored when this returns.

        A store that is away is waited for. One that refuses an entry gets no further one.
        """
        if self._store is None:
            return
        batch = self._batch
        batch.entries.append(entry)
        async with self._writing:
            if batch.is_stored or self._store is None:
                return
            if self._batch is batch:
                self._batch = _Batch()
            try:
                await self._patience.insist(partial(self._put, batch.entries))
            except NotLeading:
                raise
            except StorageError as error:
                self._store, self.problem = None, str(error)
            batch.is_stored = True

    async def _put(self, entries: Sequence[JournalEntry]) -> None:
        """Store entries in a file of their own. Raises StorageError."""
        assert self._store is not None
        self._number += 1
        body = [msgspec.to_builtins(entry) for entry in entries]
        await self._store.put_restore_journal(self._name, self._owner, self._number, body)

    def is_own(self, resource: str, obj: JSONObject) -> bool:
        """Whether the interrupted run created an object that exists.

        Args:
            resource: its group-resource.
        """
        if self._began is None:
            return False
        metadata = obj["metadata"]
        if not self._labels.items() <= mapping(obj, "metadata", "labels").items():
            return False
        created = known_time(text(metadata, "creationTimestamp"))
        if created is None or created < self._began - _CLOCK_STEP:
            return False
        known = self._existing.get((resource, text(metadata, "namespace"), text(metadata, "name")))
        if known is None:
            return True
        return known.outcome is Outcome.RECREATED and known.uid != text(metadata, "uid")

    def former(self, resource: str, namespace: str, name: str) -> ExistingEntry | None:
        """What the interrupted run noted of an object that existed; None if it changed none.

        Args:
            resource: its group-resource.
            namespace: in the cluster.
        """
        return self._existing.get((resource, namespace, name))

    def has_made_namespace(self, name: str) -> bool:
        """Whether the interrupted run created a namespace that exists."""
        return self._namespaces.get(name, False)

    def has_made_job(self, namespace: str, name: str) -> bool:
        """Whether the interrupted run created a Job, which may be gone."""
        return (namespace, name) in self._jobs

    def volume(self, name: str) -> VolumeEntry | None:
        """What the interrupted run made of the snapshot of a volume."""
        return self._volumes.get(name)

    def known(self, key: HookKey) -> HookRecord | None:
        """The record of a hook; see `HookRecords`."""
        return self._hooks.get(key)

    async def begins(self, key: HookKey) -> None:
        """Record that a hook is about to run."""
        await self.note(_hook_entry(key))

    async def ended(self, key: HookKey, failure: Notice | None) -> None:
        """Record that a hook has ended."""
        if failure is None:
            await self.note(_hook_entry(key, has_ended=True))
        else:
            await self.note(_hook_entry(key, has_ended=True, failure=str(failure), code=failure.code))


def _hook_entry(key: HookKey, **facts: Any) -> HookEntry:
    return HookEntry(
        namespace=key.namespace, pod=key.pod, container=key.container, position=key.position, **facts
    )


def known_code(value: str, default: Code) -> Code:
    """The code of a notice in a journal; the default if this version does not know it."""
    try:
        return Code(value)
    except ValueError:
        return default


async def begun_restore(store: JournalStore, name: str) -> JSONObject | None:
    """The Restore that a command without a server began; None if there is none.

    Raises:
        StorageError: the journal cannot be read.
    """
    found, _ = await store.read_restore_journal(name, "", most=MOST_ENTRIES)
    for entry in found:
        if entry.get("about") == "restore" and isinstance(kept := entry.get("restore"), dict):
            return kept
    return None

"""Creates each target namespace when the first item needs it. (docs/spec: RST 9)

A restore ensures each namespace once, however many items need it; a failure is remembered, so that the
restore waits only once for a namespace that stays in deletion.
"""

import asyncio
from collections.abc import Callable, Iterator

import orjson

from pinnace.aio.timing import poll
from pinnace.api.codec import merge_patch
from pinnace.api.objects import JSONObject, dump_json, same_json
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex
from pinnace.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from pinnace.kube.resources import NAMESPACES
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.errors import NamespaceError
from pinnace.restore.item.managed_fields import OF_THE_RESTORE, Ownership, ownership_of
from pinnace.restore.item.modifying import Modifying
from pinnace.restore.item.writing import ClusterWriter
from pinnace.restore.journal import NamespaceEntry
from pinnace.restore.metadata import is_terminating
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef

_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceKeeper:
    """Ensures namespaces.

    Args:
        modifying: changes namespaces before they are created.
        may_create: whether a missing namespace is created.
        on_created: called with the name of every namespace that was created.
    """

    def __init__(
        self,
        target: TargetCluster,
        *,
        writer: ClusterWriter,
        archive: ArchiveIndex,
        modifying: Modifying,
        on_created: Callable[[str], None],
        may_create: bool = True,
    ) -> None:
        self._client = target.client
        self._writer = writer
        self._archive = archive
        self._modifying = modifying
        self._log = target.log
        self._clock = target.clock
        self._terminating_timeout_seconds = target.terminating_timeout_seconds
        self._activity = target.activity
        self._on_created = on_created
        self._may_create = may_create
        self._journal = target.journal
        self._answers: dict[str, NamespaceError | None] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def ensure(self, original: str, target: str, results: Results) -> None:
        """Return once the target namespace exists and is not being deleted.

        Args:
            original: the namespace whose labels, annotations and finalizers a new one gets.
            target: the name in the cluster.
            results: get what the resource modifiers could not change, once for each namespace.

        Raises:
            NamespaceError: it is not available for the rest of this restore.
        """
        if target not in self._answers:
            # Whoever is cancelled or fails while asking leaves the question to the next that waits.
            async with self._asking.setdefault(target, asyncio.Lock()):
                if target not in self._answers:
                    self._answers[target] = await self._try(original, target, results)
        failure = self._answers[target]
        if failure is not None:
            raise NamespaceError(failure.notice)

    async def _try(self, original: str, target: str, results: Results) -> NamespaceError | None:
        try:
            found = await self._settled(target)
        except Forbidden as error:
            return await self._try_unseen(original, target, error, results)
        except KubeError as error:
            return _unavailable(target, f"error getting namespace {target}: {error}", error)
        except TimeoutError as error:
            message = f"error getting namespace {target}: {error}"
            return NamespaceError(Notice(Code.NAMESPACE_TERMINATING, message, namespace=target))
        if found is not None:
            if self._journal.has_made_namespace(target):
                raw = self._raw(original)
                self._modifying.modified(_ref(target), namespace_manifest(raw, original), results)
                await self._created(target, _ownership(raw), results)
            else:
                self._compare(original, target, found, results)
            return None
        if not self._may_create:
            return NamespaceError(
                Notice(
                    Code.NAMESPACE_UNAVAILABLE,
                    f"namespace {target} does not exist, and a restore for a tenant or from a tenant's"
                    " location does not create namespaces: create it, then restore again",
                    namespace=target,
                )
            )
        try:
            await self._create(original, target, results)
        except AlreadyExists:
            await self._journal.note(NamespaceEntry(name=target, existed=True))
            return await self._created_by_another(target)
        except (KubeError, orjson.JSONEncodeError) as error:
            return _unavailable(target, f"error creating namespace {target}: {error}", error)
        return None

    async def _try_unseen(
        self, original: str, target: str, error: Forbidden, results: Results
    ) -> NamespaceError | None:
        """Create a namespace that may not be read, if it may be created; else it is taken to exist.

        Rights on the objects of a namespace do not include the right to read the namespace itself. If it does
        not exist, its items fail.
        """
        self._log.info("Namespace may not be read, so it is taken to exist", namespace=target, error=error)
        if self._may_create:
            try:
                await self._create(original, target, results)
            except (AlreadyExists, Forbidden):
                if self._journal.has_made_namespace(target):
                    self._on_created(target)
                else:
                    await self._journal.note(NamespaceEntry(name=target, existed=True))
                return None
            except (KubeError, orjson.JSONEncodeError) as refusal:
                return _unavailable(target, f"error creating namespace {target}: {refusal}", refusal)
        return None

    async def _create(self, original: str, target: str, results: Results) -> None:
        """Create a namespace. Raises KubeError or orjson.JSONEncodeError."""
        raw = self._raw(original)
        modified = self._modifying.modified(_ref(target), namespace_manifest(raw, original), results)
        ownership = _ownership(raw)
        if not self._journal.has_made_namespace(target):
            await self._journal.note(NamespaceEntry(name=target))
        await self._writer.create(
            NAMESPACES,
            target,
            dump_json(under_name(modified, target)),
            # It has no label of this restore, but it did not exist a moment ago.
            is_ours=lambda found: not is_terminating(found),
            field_manager=ownership.creator,
        )
        self._log.info("Created namespace", namespace=target)
        await self._created(target, ownership, results)

    async def _created(self, target: str, ownership: Ownership, results: Results) -> None:
        """Give a new namespace the owners of its fields."""
        self._on_created(target)
        if not ownership.is_complete:
            try:
                await self._writer.give_owners(NAMESPACES, target, ownership)
            except KubeError as error:
                message = f"could not restore metadata.managedFields of namespace {target}: {error}"
                results.warnings.add(target, Notice(Code.FIELD_OWNERS_NOT_RESTORED, message))

    async def _settled(self, name: str) -> JSONObject | None:
        """Wait while the namespace is being deleted; return the one that is there afterwards.

        Raises:
            TimeoutError: it is still being deleted.
        """
        found: JSONObject | None = None
        deletion = f"namespace {name} to be deleted"

        async def settled() -> bool:
            nonlocal found
            try:
                found = await self._client.get(NAMESPACES, name)
            except NotFound:
                found = None
                return True
            if is_terminating(found):
                self._log.debug("Namespace is terminating, waiting", namespace=name)
                self._activity.wait_for(deletion)
                return False
            return True

        try:
            if not await poll(settled, clock=self._clock, timeout_seconds=self._terminating_timeout_seconds):
                raise TimeoutError("timed out waiting for the condition")
        finally:
            self._activity.waited_for(deletion)
        return found

    def _compare(self, original: str, target: str, found: JSONObject, results: Results) -> None:
        """Warn if the modifiers ask for a change of a namespace that exists, which is left as it is."""
        stored = namespace_manifest(self._raw(original), original)
        wanted = self._modifying.modified(_ref(target), stored, results)
        if wanted is stored:
            return
        change = merge_patch(stored, wanted)
        if not _holds(change, found):
            results.warnings.add(
                target,
                Notice(
                    Code.NAMESPACE_DIFFERS,
                    f"namespace {target} exists already and was left as it is: the resource modifiers would"
                    f" change its {', '.join(sorted(_changed_fields(change)))}",
                    namespace=target,
                ),
            )

    async def _created_by_another(self, target: str) -> NamespaceError | None:
        try:
            namespace = await self._client.get(NAMESPACES, target)
        except KubeError as error:
            return _unavailable(target, f"error getting namespace {target}: {error}", error)
        if is_terminating(namespace):
            return NamespaceError(
                Notice(
                    Code.NAMESPACE_TERMINATING,
                    f"namespace {target} created and marked for termination after timeout",
                    namespace=target,
                )
            )
        return None

    def _raw(self, original: str) -> bytes | None:
        """The namespace in the backup; None if there is none that can be read."""
        try:
            return self._archive.namespace_manifest(original)
        except ArchiveError as error:
            self._log.warning(
                Notice(Code.ITEM_UNREADABLE, "Cannot read the namespace in the backup"),
                namespace=original,
                error=error,
            )
            return None


def _unavailable(namespace: str, text: str, cause: Exception) -> NamespaceError:
    return NamespaceError(notice_of(cause, Code.NAMESPACE_UNAVAILABLE, text, namespace=namespace))


def _ownership(raw: bytes | None) -> Ownership:
    try:
        return ownership_of(orjson.loads(raw)) if raw is not None else OF_THE_RESTORE
    except orjson.JSONDecodeError:
        return OF_THE_RESTORE


def namespace_manifest(raw: bytes | None, name: str) -> JSONObject:
    """Labels, annotations and spec of the backed-up namespace, if it parses, under its name.

    The labels of the restore are not added.
    """
    manifest: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        stored = orjson.loads(raw) if raw is not None else None
    except orjson.JSONDecodeError:
        return manifest
    if not isinstance(stored, dict) or not isinstance(stored.get("metadata"), dict):
        return manifest
    for field in ("labels", "annotations"):
        if isinstance(stored["metadata"].get(field), dict):
            manifest["metadata"][field] = stored["metadata"][field]
    if isinstance(stored.get("spec"), dict):
        manifest["spec"] = stored["spec"]
    return manifest


def under_name(manifest: JSONObject, name: str) -> JSONObject:
    """The namespace under another name."""
    metadata = {**manifest["metadata"], "name": name}
    labels = metadata.get("labels") or {}
    if _NAME_LABEL in labels:
        # Servers before 1.21 do not correct it, and with a mapped name it would be wrong.
        metadata["labels"] = {**labels, _NAME_LABEL: name}
    return {**manifest, "metadata": metadata}


def _ref(name: str) -> ItemRef:
    return ItemRef(NAMESPACES.group_resource, "", "", name)


def _holds(change: object, found: object) -> bool:
    """Whether a merge patch would not change what was found."""
    if not isinstance(change, dict):
        return same_json(change, found)
    given = found if isinstance(found, dict) else {}
    return all(_holds(value, given.get(key)) for key, value in change.items())


def _changed_fields(change: JSONObject) -> Iterator[str]:
    """The labels, annotations and other fields of a merge patch, with the names of the first."""
    for field, value in change.items():
        if field != "metadata":
            yield field
            continue
        for part, entries in value.items():
            names = ", ".join(sorted(entries)) if isinstance(entries, dict) else ""
            yield f"{part} {names}" if names else part

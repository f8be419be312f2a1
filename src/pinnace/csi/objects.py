"""The VolumeSnapshots of a backup in a cluster: waits for them, collects them, deletes them.

(docs/spec: SRV 18, BKP 11, CTL 6.5)
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import CSI_SNAPSHOT_TIMEOUT, Backup
from pinnace.api.volume_info import BackupVolumeInfo, DataMovementInfo
from pinnace.archive.runlog import RunLog
from pinnace.csi.deletion import StoredSnapshot, content_to_delete
from pinnace.csi.snapshots import (
    DELETE_WITH_OBJECT,
    KEEP_WITHOUT_OBJECT,
    LET_GO,
    CSIError,
    SnapshotKinds,
    backup_selector,
    bound_content,
    csi_volume_info,
    handle_of,
)
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of

FIRST_POLL_SECONDS: Final = 0.25
POLL_SECONDS: Final = 5.0
"""The longest pause between two looks; the first ones are shorter, as most drivers need only a second."""
READY_POLL_SECONDS: Final = 1.0
TIMEOUT_SECONDS: Final = CSI_SNAPSHOT_TIMEOUT.total_seconds()
"""How long a snapshot may take to get a handle from the storage system. (docs/spec: SRV 18.2)"""

TAKE_OVER_SECONDS: Final = 60.0
"""How long a driver may take to find the snapshot of a content."""

_DELETIONS: Final = 16
"""Snapshots deleted at once."""


class TakenSnapshots:
    """The CSI snapshots of one backup, from their creation until their objects are removed from the cluster.

        made ──> kept: the content is labelled, and its snapshot outlives it ──> ready ─┐
                          objects removed <── stored <──┤ the backup is uploaded <──────┘
                         snapshot deleted <── not <─────┘

    A process that dies in between leaves objects with the label of the backup, so that a deletion finds them;
    from `kept` on the snapshot outlives its namespace. (docs/adr/022, docs/spec: BEY 6.6)

    Args:
        kinds: as the cluster serves them.
        backup: its `csiSnapshotTimeout` limits how long a snapshot may take to get a handle, and to be ready.
    """

    def __init__(
        self,
        client: KubeClient,
        kinds: SnapshotKinds,
        backup: Backup,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._backup = backup.metadata.name
        self._clock = clock
        asked = backup.spec.csi_snapshot_timeout
        self.timeout_seconds = asked.total_seconds() if asked else TIMEOUT_SECONDS
        self._made: dict[tuple[str, str], _Taken] = {}

    def made(self, snapshot: JSONObject, claim: JSONObject, volume: JSONObject) -> None:
        """Record a VolumeSnapshot of a claim on a persistent volume."""
        metadata = snapshot["metadata"]
        key = metadata["namespace"], metadata["name"]
        self._made[key] = _Taken(uid=metadata.get("uid", ""), claim=claim["metadata"]["name"], volume=volume)

    def moved(self, namespace: str, name: str, operation: str) -> None:
        """Leave a snapshot to the DataUpload that moves its data, which removes it in the end."""
        taken = self._made[namespace, name]
        taken.is_moved = True
        if taken.info is not None:
            taken.info.snapshot_data_moved = True
            taken.info.preserve_local_snapshot = False
            taken.info.csi_snapshot_info = None
            taken.info.snapshot_data_movement_info = DataMovementInfo(
                data_mover="velero", uploader_type="kopia", operation_id=operation
            )

    async def drop(self, namespace: str, name: str) -> None:
        """Delete one snapshot whose data is not to be moved after all. Raises KubeError."""
        await self._delete_snapshot(namespace, name, self._made.pop((namespace, name)))

    async def _delete_snapshot(self, namespace: str, name: str, taken: "_Taken") -> None:
        """Delete a snapshot, in storage too; what its driver has begun is deleted when it is finished.

        Raises:
            KubeError: it may still be there.
        """
        try:
            found = await self._client.get(self._kinds.snapshots, name, namespace)
            content = taken.content or bound_content(found)
        except NotFound:
            content = taken.content
        if content:
            await _release(self._client, self._kinds, content)
        await _delete(self._client, self._kinds.snapshots, name, namespace, uid=taken.uid)
        if content:
            await delete_content(self._client, self._kinds, content)

    def is_ours(self, namespace: str, name: str) -> bool:
        """Whether this backup created a VolumeSnapshot. A label is no proof, as any user can write it."""
        return (namespace, name) in self._made

    def volume_of(self, namespace: str, name: str) -> JSONObject:
        """The persistent volume behind one of our snapshots."""
        return self._made[namespace, name].volume

    def has_snapshot(self, namespace: str, claim: str) -> bool:
        """Whether a snapshot of the claim has been kept."""
        return any(
            home == namespace and taken.claim == claim and taken.content
            for (home, _name), taken in self._made.items()
        )

    async def wait_and_keep(self, snapshot: JSONObject) -> tuple[JSONObject, JSONObject]:
        """Wait until one of our snapshots has a handle, set it to be kept, and return it with its content.

        Raises:
            CSIError, KubeError: it was not taken in time, or its content could not be changed. It is deleted,
                as no file of the backup names it.
        """
        try:
            return await self._wait_and_keep(snapshot)
        except (CSIError, KubeError) as error:
            namespace, name = snapshot["metadata"]["namespace"], snapshot["metadata"]["name"]
            try:
                await self._delete_snapshot(namespace, name, self._made[namespace, name])
            except KubeError as problem:
                raise CSIError(
                    f"{error}; its VolumeSnapshot stays until the backup is deleted: {problem}"
                ) from error
            raise

    async def _wait_and_keep(self, snapshot: JSONObject) -> tuple[JSONObject, JSONObject]:
        found, content = await wait_for_content(
            self._client, self._kinds, snapshot, clock=self._clock, timeout_seconds=self.timeout_seconds
        )
        name, own_labels = content["metadata"]["name"], {labels.BACKUP_NAME: labels.label_value(self._backup)}
        # In one write: at no time is it kept without the label that a deletion needs to find it.
        patch = {"metadata": {"labels": own_labels}, **KEEP_WITHOUT_OBJECT}
        content = await self._client.patch(self._kinds.contents, name, patch)
        taken = self._made[found["metadata"]["namespace"], found["metadata"]["name"]]
        taken.content = name
        taken.info = csi_volume_info(found, content, taken.claim, taken.volume)
        return found, content

    async def collect(self, log: RunLog) -> tuple[Sequence[JSONObject], Sequence[JSONObject]]:
        """Wait until the snapshots are ready, and return them and their contents for the files of the backup.

        A failed list and a failed snapshot count as errors. (docs/spec: BKP 3.3)
        """
        async with asyncio.TaskGroup() as group:
            for (namespace, name), taken in self._made.items():
                if taken.content and not taken.is_moved:
                    group.create_task(self._await_ready(namespace, name, taken, log))
        return await self._list(self._kinds.snapshots, log), await self._list(self._kinds.contents, log)

    @property
    def counts(self) -> tuple[int, int]:
        """How many snapshots were begun to stay, and how many are ready.

        Those whose data is moved are left out, as Velero 1.18 does: their operations are counted, and a move
        that fails is no snapshot that was taken.
        """
        staying = [taken for taken in self._made.values() if not taken.is_moved]
        return len(staying), sum(taken.is_ready for taken in staying)

    @property
    def volume_infos(self) -> Sequence[BackupVolumeInfo]:
        """The records of the volumes for the backup's files. (docs/spec: BEY 3.6)"""
        return [taken.info for taken in self._made.values() if taken.info is not None]

    async def remove_objects(self) -> list[str]:
        """Remove the objects of stored snapshots from the cluster, and return the errors.

        Snapshots that are not ready keep their objects until the backup is deleted.
        """
        problems = []
        for (namespace, name), taken in self._made.items():
            if not taken.is_ready or taken.is_moved:
                continue
            try:
                await _delete(self._client, self._kinds.snapshots, name, namespace, uid=taken.uid)
                await delete_content(self._client, self._kinds, taken.content)
            except KubeError as error:
                problems.append(f"error removing VolumeSnapshot {namespace}/{name}: {error}")
        return problems

    async def discard(self) -> list[str]:
        """Delete the snapshots of a backup that was not stored, and return the errors."""
        problems = []
        for (namespace, name), taken in self._made.items():
            if taken.is_moved:
                continue
            try:
                await self._delete_snapshot(namespace, name, taken)
            except KubeError as error:
                problems.append(f"error deleting VolumeSnapshot {namespace}/{name}: {error}")
        return problems

    async def _await_ready(self, namespace: str, name: str, taken: "_Taken", log: RunLog) -> None:
        fields = {"namespace": namespace, "volumeSnapshot": name}
        reason = "it is not ready"
        for tries_left in range(round(self.timeout_seconds / READY_POLL_SECONDS), -1, -1):
            try:
                found = await self._client.get(self._kinds.snapshots, name, namespace)
            except KubeError as error:
                log.error(
                    notice_of(
                        error, Code.SNAPSHOT_NOT_READY, "Error checking whether a CSI snapshot is ready"
                    ),
                    error=error,
                    **fields,
                )
                return
            if (found.get("status") or {}).get("readyToUse"):
                taken.is_ready = True
                if taken.info is not None and taken.info.csi_snapshot_info is not None:
                    taken.info.csi_snapshot_info.ready_to_use = True
                return
            reason = trouble_of(found) or reason
            if tries_left:
                await self._clock.sleep(READY_POLL_SECONDS)
        log.error(
            Notice(
                Code.SNAPSHOT_NOT_READY,
                f"A CSI snapshot did not become ready within {Duration.seconds(self.timeout_seconds)}; its"
                " VolumeSnapshot stays in the cluster",
            ),
            error=reason,
            **fields,
        )

    async def _list(self, resource: APIResource, log: RunLog) -> Sequence[JSONObject]:
        try:
            found = await self._client.list_all(resource, label_selector=backup_selector(self._backup))
        except KubeError as error:
            log.error(
                notice_of(error, Code.SNAPSHOT_OBJECTS_LEFT, "Error listing the CSI snapshots of the backup"),
                error=error,
                resource=resource.name,
            )
            return ()
        moved = {name for (_, name), taken in self._made.items() if taken.is_moved}
        moved |= {taken.content for taken in self._made.values() if taken.is_moved}
        return [
            obj
            for obj in found
            if "deletionTimestamp" not in obj["metadata"] and obj["metadata"]["name"] not in moved
        ]


class _Taken(msgspec.Struct):
    """One VolumeSnapshot; `content` is empty until the snapshot is kept."""

    uid: str
    claim: str
    volume: JSONObject
    content: str = ""
    is_ready: bool = False
    is_moved: bool = False
    info: BackupVolumeInfo | None = None


async def wait_for_content(
    client: KubeClient,
    kinds: SnapshotKinds,
    snapshot: JSONObject,
    *,
    clock: Clock = SYSTEM_CLOCK,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[JSONObject, JSONObject]:
    """Wait until the storage system has given a snapshot a handle, and return it and its content.

    This does not wait until the data is ready to use: a restore does.

    Raises:
        CSIError: it took too long, with the reason that the cluster gives.
        KubeError: one of them cannot be read.
    """
    namespace, name = snapshot["metadata"]["namespace"], snapshot["metadata"]["name"]
    reason = "it has no VolumeSnapshotContent yet: does a snapshot controller run in the cluster?"
    left_seconds, pause_seconds = timeout_seconds, FIRST_POLL_SECONDS
    while True:
        found = await client.get(kinds.snapshots, name, namespace)
        if content_name := bound_content(found):
            content = await client.get(kinds.contents, content_name)
            if handle_of(content):
                return found, content
            reason = trouble_of(content) or f"VolumeSnapshotContent {content_name} has no snapshot handle yet"
        reason = trouble_of(found) or reason
        if left_seconds <= 0:
            break
        await clock.sleep(min(pause_seconds, left_seconds))
        left_seconds -= pause_seconds
        pause_seconds = min(2 * pause_seconds, POLL_SECONDS)
    raise CSIError(
        f"VolumeSnapshot {namespace}/{name} was not made within {Duration.seconds(timeout_seconds)}: {reason}"
    )


def is_gone(content: JSONObject) -> bool:
    """Whether the snapshot no longer exists in the storage system, by the text of the csi-snapshotter."""
    return any(text in trouble_of(content).lower() for text in ("can not find snapshot", "not found"))


def trouble_of(obj: JSONObject) -> str:
    """The error of a snapshot or content, as the snapshot controllers report it; empty if there is none."""
    return str(((obj.get("status") or {}).get("error") or {}).get("message") or "")


async def delete_csi_snapshots(
    client: KubeClient,
    kinds: SnapshotKinds,
    stored: Iterable[StoredSnapshot],
    *,
    backup: str,
    namespace: str,
    clock: Clock = SYSTEM_CLOCK,
) -> list[str]:
    """Delete all CSI snapshots of a backup, through their objects in the cluster or through new ones.

    The storage system deletes them later, by itself. Idempotent. (docs/spec: CTL 6.5)

    Args:
        stored: the snapshots that the files of the backup name.
        namespace: the server's.

    Returns:
        What went wrong.

    Raises:
        KubeError: the objects cannot be listed now.
    """
    errors, live = await delete_objects(client, kinds, backup, clock=clock)
    known = {handle_of(content) for content in live}
    missing = [snapshot for snapshot in stored if snapshot.handle not in known]
    return errors + await _delete_stored(
        client, kinds, missing, backup=backup, namespace=namespace, clock=clock
    )


async def served_kinds(client: KubeClient) -> SnapshotKinds | None:
    """The kinds of CSI snapshots that the API server serves now; None for none. Raises KubeError."""
    return SnapshotKinds.served(await Discovery.load(client))


async def delete_objects(
    client: KubeClient,
    kinds: SnapshotKinds,
    backup: str,
    *,
    kept: Collection[str] = (),
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[list[str], list[JSONObject]]:
    """Delete the snapshots and contents with a backup's label, and with them the snapshots in storage.

    Args:
        kept: names of contents that stay, with their snapshots.

    Returns:
        The errors, and the contents that existed.

    Raises:
        KubeError: they cannot be listed now.
    """
    selector, errors = backup_selector(backup), []
    snapshots = await client.list_all(kinds.snapshots, label_selector=selector)
    contents = await client.list_all(kinds.contents, label_selector=selector)
    # A content that is being deleted and leaves its snapshot does not count.
    contents = [content for content in contents if not _goes_without_snapshot(content)]
    snapshots = [snapshot for snapshot in snapshots if bound_content(snapshot) not in kept]
    contents = [content for content in contents if content["metadata"]["name"] not in kept]
    labelled = {content["metadata"]["name"] for content in contents}
    for snapshot in snapshots:
        namespace, name = snapshot["metadata"]["namespace"], snapshot["metadata"]["name"]
        try:
            if bound := bound_content(snapshot):
                await _release(client, kinds, bound)
            await _delete(client, kinds.snapshots, name, namespace)
            if bound and bound not in labelled:  # the backup ended before it could label it
                await _delete_taken_over(client, kinds, bound, clock)
        except (KubeError, CSIError) as error:
            errors.append(f"error deleting CSI VolumeSnapshot {namespace}/{name}: {error}")
    for content in contents:
        name = content["metadata"]["name"]
        try:
            await _release(client, kinds, name)
            await _delete_taken_over(client, kinds, name, clock)
        except (KubeError, CSIError) as error:
            errors.append(f"error deleting CSI VolumeSnapshotContent {name}: {error}")
    return errors, contents


async def _delete_stored(
    client: KubeClient,
    kinds: SnapshotKinds,
    snapshots: Iterable[StoredSnapshot],
    *,
    backup: str,
    namespace: str,
    clock: Clock,
) -> list[str]:
    """Delete snapshots without a content in the cluster, each through a content created for that.

    The content has the label of the backup, so that a later deletion finds it if this one dies.
    (docs/adr/021, docs/spec: BEY 6.6)
    """
    limit = asyncio.Semaphore(_DELETIONS)

    async def delete(snapshot: StoredSnapshot) -> str:
        body = content_to_delete(kinds, snapshot, backup, namespace)
        name = body["metadata"]["name"]
        async with limit:
            try:
                await _create_or_find(client, kinds, body, clock)
                await _release(client, kinds, name)
                await _delete_taken_over(client, kinds, name, clock)
            except (KubeError, CSIError) as error:
                return f"error deleting {snapshot}: {error}"
        return ""

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(delete(snapshot)) for snapshot in snapshots]
    return [error for task in tasks if (error := task.result())]


async def _create_or_find(client: KubeClient, kinds: SnapshotKinds, body: JSONObject, clock: Clock) -> None:
    """Create a content, or find that of an earlier deletion; wait first for one that is being deleted.

    Raises:
        CSIError: the content stays in deletion.
    """
    name = body["metadata"]["name"]
    for _ in range(round(TAKE_OVER_SECONDS) + 1):
        try:
            await client.create(kinds.contents, body)
        except AlreadyExists:
            try:
                found = await client.get(kinds.contents, name)
            except NotFound:
                continue
            if not _goes_without_snapshot(found):
                return
        else:
            return
        await clock.sleep(1.0)
    raise CSIError(f"the VolumeSnapshotContent {name} of an earlier deletion remains: see its finalizers")


def _goes_without_snapshot(content: JSONObject) -> bool:
    """Whether the content is being deleted in a way that leaves its snapshot in storage.

    A policy that changes now may come too late: its driver may be letting it go already.
    """
    if "deletionTimestamp" not in content["metadata"]:
        return False
    return not _is_taken_over(content) or (content.get("spec") or {}).get("deletionPolicy") != "Delete"


def _is_taken_over(content: JSONObject) -> bool:
    """Whether its driver has found its snapshot, so that deleting the content deletes that."""
    return bool((content.get("status") or {}).get("snapshotHandle"))


async def _delete_taken_over(client: KubeClient, kinds: SnapshotKinds, name: str, clock: Clock) -> None:
    """Wait until its driver has taken a content over, and delete it; earlier, the snapshot would stay.

    Raises:
        CSIError: no driver took it over. The content is deleted nevertheless; a retry creates a new one.
    """
    for tries_left in range(round(TAKE_OVER_SECONDS), -1, -1):
        try:
            content = await client.get(kinds.contents, name)
        except NotFound:
            return
        if _is_taken_over(content) or is_gone(content) or not handle_of(content):
            break
        if tries_left:
            await clock.sleep(1.0)
    else:
        await delete_content(client, kinds, name)
        driver = (content.get("spec") or {}).get("driver", "")
        reason = (
            trouble_of(content) or f"does the csi-snapshotter of the driver {driver} run in this cluster?"
        )
        raise CSIError(f"its driver did not take it over within {TAKE_OVER_SECONDS:g} seconds: {reason}")
    await delete_content(client, kinds, name)


async def delete_content(client: KubeClient, kinds: SnapshotKinds, name: str) -> None:
    """Delete a content so that its driver lets it go, whatever becomes of its VolumeSnapshot.

    Its deletion policy says what becomes of the snapshot in storage. A missing content is no error.

    Raises:
        KubeError: it may still be there.
    """
    with suppress(NotFound):
        await client.patch(kinds.contents, name, LET_GO)
        await client.delete(kinds.contents, name)


async def _release(client: KubeClient, kinds: SnapshotKinds, content: str) -> None:
    """Set a content so that its snapshot is deleted with it; a missing content is no error."""
    try:
        await client.patch(kinds.contents, content, DELETE_WITH_OBJECT)
    except NotFound:
        return


async def _delete(
    client: KubeClient, resource: APIResource, name: str, namespace: str | None = None, *, uid: str = ""
) -> None:
    try:
        await client.delete(resource, name, namespace, uid=uid or None)
    except NotFound:
        return

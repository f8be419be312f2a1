"""Whether CSI snapshots exist in the storage system: by the cluster's contents, or by asking their drivers.

A driver can be asked only through a VolumeSnapshotContent with the handle: one is made for the look, with a
policy that leaves the snapshot alone, and removed again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import parse_time
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.objects import is_gone, trouble_of
from pinnace.csi.snapshots import SnapshotKinds, handle_of, labels_of
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, KubeError, NotFound

ANSWER_SECONDS: Final = 60.0
"""How long a driver may take to look for a snapshot."""

_AT_ONCE: Final = 8
_CLOCKS_DIFFER_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 1.0
_REMOVAL_SECONDS: Final = 30.0


class CSILookup(msgspec.Struct, kw_only=True):
    """The result of a look-up: a text for each snapshot that is missing, or that may be."""

    missing: list[str] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)


async def look_up_csi(
    client: KubeClient,
    kinds: SnapshotKinds,
    snapshots: Sequence[StoredSnapshot],
    *,
    ask_in: str = "",
    clock: Clock = SYSTEM_CLOCK,
) -> CSILookup:
    """Look for snapshots.

    Args:
        ask_in: the namespace in the contents that are made for snapshots without one; empty to make none.

    Raises:
        KubeError: the contents cannot be listed.
    """
    known = _by_handle(await client.list_all(kinds.contents))
    found = CSILookup()
    limit = asyncio.Semaphore(_AT_ONCE)

    async def look(snapshot: StoredSnapshot) -> None:
        content = known.get((snapshot.driver, snapshot.handle))
        if content is None and not ask_in:
            found.unknown.append(
                f"{snapshot}: the cluster has no VolumeSnapshotContent of it; `backup verify --ask-drivers`"
                " makes one for the look"
            )
            return
        try:
            async with limit:
                content = content or await _ask(
                    client, kinds, content_for_look(kinds, snapshot, ask_in), clock
                )
        except (KubeError, TimeoutError) as error:
            found.unknown.append(f"{snapshot}: {str(error) or 'the API server took too long'}")
            return
        if is_gone(content):
            found.missing.append(f"{snapshot} is not there: {trouble_of(content)}")
        elif proves_nothing(content):
            found.unknown.append(f"{snapshot}: its driver cannot tell whether a snapshot exists")
        elif not (content.get("status") or {}).get("readyToUse"):
            reason = trouble_of(content) or "its driver has not said that it is ready to use"
            found.unknown.append(f"{snapshot}: {reason}")

    async with asyncio.TaskGroup() as group:
        for snapshot in snapshots:
            group.create_task(look(snapshot))
    return found


def _by_handle(contents: Iterable[JSONObject]) -> dict[tuple[str, str], JSONObject]:
    return {
        (str((content.get("spec") or {}).get("driver")), handle_of(content)): content
        for content in contents
        if "deletionTimestamp" not in content["metadata"] and labels.VERIFICATION not in labels_of(content)
    }


async def _ask(client: KubeClient, kinds: SnapshotKinds, body: JSONObject, clock: Clock) -> JSONObject:
    """The content after its driver has had time to answer. Raises KubeError."""
    name = body["metadata"]["name"]
    with suppress(AlreadyExists):  # of a look that was killed
        await client.create(kinds.contents, body)
    try:
        for _ in range(round(ANSWER_SECONDS / _POLL_SECONDS)):
            content = await client.get(kinds.contents, name)
            if (content.get("status") or {}).get("readyToUse") or trouble_of(content):
                break
            await clock.sleep(_POLL_SECONDS)
        return content
    finally:
        async with asyncio.timeout(_REMOVAL_SECONDS):  # after a cancellation too
            await _remove(client, kinds, name)


async def _remove(client: KubeClient, kinds: SnapshotKinds, name: str) -> None:
    try:
        await client.delete(kinds.contents, name)
    except NotFound:
        return


def proves_nothing(content: JSONObject) -> bool:
    """Whether the readiness of a content for a look proves nothing, as its driver lists no snapshots. Pure.

    The csi-snapshotter then gives the present time as the snapshot's creation time.
    """
    if labels.VERIFICATION not in labels_of(content):
        return False
    status = content.get("status") or {}
    taken, made = status.get("creationTime"), content["metadata"].get("creationTimestamp")
    if not status.get("readyToUse") or not made:
        return False
    return (
        not isinstance(taken, int) or taken >= (parse_time(made).timestamp() - _CLOCKS_DIFFER_SECONDS) * 1e9
    )


def content_for_look(kinds: SnapshotKinds, snapshot: StoredSnapshot, namespace: str) -> JSONObject:
    """The content that makes a driver look; deleting it leaves the snapshot. Pure."""
    digest = sha256(f"{snapshot.driver}/{snapshot.handle}".encode()).hexdigest()
    name = f"pinnace-verify-{digest[:40]}"
    return {
        "apiVersion": kinds.contents.api_version,
        "kind": kinds.contents.kind,
        "metadata": {"name": name, "labels": {labels.VERIFICATION: "true", **snapshot.manager_label}},
        "spec": {
            "deletionPolicy": "Retain",
            "driver": snapshot.driver,
            "source": {"snapshotHandle": snapshot.handle},
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": namespace, "name": name},
        },
    }

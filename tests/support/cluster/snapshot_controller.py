"""The snapshot controller and its storage, simulated by the test: phases and objects, but no data.

A VolumeSnapshot of a claim gets a content, and the content, as often as the test wants later, a handle. One
that names its content is bound to it. A finalizer ensures that the deletion of a content with the policy
Delete deletes its snapshot. VolumeSnapshots get none, as if each were deleted before the controller could do
that: so a content that was bound goes only if somebody else annotates it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi.snapshots import SnapshotKinds, annotations_of
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from tests.support.waiting import POLL_SECONDS

SIZE_BYTES = 3 << 30
TAKEN_NANOSECONDS = 1_700_000_000_000_000_000
FINALIZER = "example.io/has-a-snapshot"


class ScriptedSnapshots:
    """Works on one namespace, as long as `working` lasts.

    Attributes:
        storage: handles of the existing snapshots.
        binds: whether new snapshots get contents.
        makes_handles: whether contents get theirs.
    """

    def __init__(self, client: KubeClient, kinds: SnapshotKinds, namespace: str) -> None:
        self.storage: set[str] = set()
        self.binds = True
        self.makes_handles = True
        self._client = client
        self._kinds = kinds
        self._namespace = namespace

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._work())
            yield
            task.cancel()

    async def _work(self) -> None:
        while True:
            for snapshot in await self._client.list_all(self._kinds.snapshots, self._namespace):
                if self.binds and "boundVolumeSnapshotContentName" not in (snapshot.get("status") or {}):
                    await self._bind(snapshot)
            await self._look_after_contents()
            await asyncio.sleep(2 * POLL_SECONDS)

    async def _bind(self, snapshot: JSONObject) -> None:
        source = snapshot["spec"]["source"]
        content = source.get("volumeSnapshotContentName")
        if content is None:
            content = await self._make_content(snapshot, source["persistentVolumeClaimName"])
        else:
            reference = {"uid": snapshot["metadata"]["uid"]}
            await self._patch(content, {"spec": {"volumeSnapshotRef": reference}})
        status = {"boundVolumeSnapshotContentName": content, "readyToUse": True}
        await self._client.patch(
            self._kinds.snapshots,
            snapshot["metadata"]["name"],
            {"status": status},
            snapshot["metadata"]["namespace"],
            subresource="status",
        )

    async def _make_content(self, snapshot: JSONObject, claim_name: str) -> str:
        metadata = snapshot["metadata"]
        claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, claim_name, metadata["namespace"])
        volume = await self._client.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
        of_class = await self._client.get(self._kinds.classes, snapshot["spec"]["volumeSnapshotClassName"])
        name = f"snapcontent-{metadata['uid']}"
        reference = {"kind": "VolumeSnapshot", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
        body = {
            "apiVersion": self._kinds.contents.api_version,
            "kind": self._kinds.contents.kind,
            "metadata": {"name": name},
            "spec": {
                "deletionPolicy": of_class["deletionPolicy"],
                "driver": volume["spec"]["csi"]["driver"],
                "source": {"volumeHandle": volume["spec"]["csi"]["volumeHandle"]},
                "volumeSnapshotRef": reference,
            },
        }
        await self._client.create(self._kinds.contents, body)
        return name

    async def _look_after_contents(self) -> None:
        """Add finalizers and handles to contents, and remove the finalizers of deleted ones."""
        for content in await self._client.list_all(self._kinds.contents):
            if content["spec"]["volumeSnapshotRef"].get("namespace") != self._namespace:
                continue
            metadata, source = content["metadata"], content["spec"]["source"]
            handle = (content.get("status") or {}).get("snapshotHandle")
            # A real sidecar finishes what its driver has begun before it lets a deleted content go.
            is_begun = handle is None and "volumeHandle" in source and bool(metadata.get("finalizers"))
            is_bound = "volumeHandle" in source or "uid" in content["spec"]["volumeSnapshotRef"]
            is_kept = is_bound and labels.CSI_BEING_DELETED not in annotations_of(content)
            if "deletionTimestamp" in metadata and not is_begun:
                if is_kept:
                    continue
                if content["spec"].get("deletionPolicy") == "Delete":
                    self.storage.discard(handle)
                await self._patch(metadata["name"], {"metadata": {"finalizers": None}})
            elif not metadata.get("finalizers"):
                await self._patch(metadata["name"], {"metadata": {"finalizers": [FINALIZER]}})
            elif handle is None and self.makes_handles:
                handle = source.get("snapshotHandle") or f"handle-of-{metadata['name']}"
                if "snapshotHandle" not in source:
                    self.storage.add(handle)
                elif handle not in self.storage:
                    error = {"message": f"can not find snapshot for snapshotID {handle}"}
                    await self._patch(metadata["name"], {"status": {"error": error}}, subresource="status")
                    continue
                status = {
                    "snapshotHandle": handle,
                    "restoreSize": SIZE_BYTES,
                    "readyToUse": True,
                    "creationTime": TAKEN_NANOSECONDS,
                }
                await self._patch(metadata["name"], {"status": status}, subresource="status")

    async def _patch(self, content: str, patch: JSONObject, **options: str) -> None:
        with suppress(NotFound):  # deleted since
            await self._client.patch(self._kinds.contents, content, patch, **options)

"""The three kinds of CSI snapshots on a test's API server, with schemas that allow everything."""

import contextlib

from pinnace.csi.snapshots import GROUP, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from tests.support.waiting import eventually

_KINDS = (
    ("volumesnapshots", "VolumeSnapshot", "Namespaced"),
    ("volumesnapshotcontents", "VolumeSnapshotContent", "Cluster"),
    ("volumesnapshotclasses", "VolumeSnapshotClass", "Cluster"),
)
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def kinds(version: str = "v1") -> SnapshotKinds:
    """The kinds as a cluster serves them."""
    found = [
        APIResource(group=GROUP, version=version, name=plural, kind=kind, namespaced=scope == "Namespaced")
        for plural, kind, scope in _KINDS
    ]
    return SnapshotKinds(snapshots=found[0], contents=found[1], classes=found[2])


async def ensure_snapshot_crds(client: KubeClient) -> SnapshotKinds:
    """Return when the kinds are served in v1 and discovered; only the first call of a cluster makes them."""
    for plural, kind, scope in _KINDS:
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, _definition(plural, kind, scope))
        except AlreadyExists:
            continue
    found = kinds()

    async def served() -> bool:
        try:
            for resource in (found.snapshots, found.contents, found.classes):
                await client.list_all(resource)
        except NotFound:
            return False
        # Discovery follows a moment later.
        return SnapshotKinds.served(await Discovery.load(client)) is not None

    await eventually(served)
    return found


async def remove_snapshot_crds(client: KubeClient) -> None:
    """Return when the group is not served any more; for tests of clusters without it."""
    for plural, _, _ in _KINDS:
        with contextlib.suppress(NotFound):
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{GROUP}")

    async def gone() -> bool:
        return not (await Discovery.load(client)).serves_group(GROUP)

    await eventually(gone)


def _definition(plural: str, kind: str, scope: str) -> dict[str, object]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": ANYTHING},
        "subresources": {} if kind == "VolumeSnapshotClass" else {"status": {}},
    }
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {
            "name": f"{plural}.{GROUP}",
            # The API server asks for a review of everything below k8s.io.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi"},
        },
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }

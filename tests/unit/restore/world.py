"""A restore engine before the scripted cluster, and short ways to make objects and backups."""

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup, BackupSpec, BackupStatus
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.archive.paths import item_path
from pinnace.archive.reader import ArchiveIndex
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes
from pinnace.catalogue.records import BackupRecords
from pinnace.kube.discovery import Discovery
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.restore.cluster import ClusterAccess
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.engine import RestoreEngine
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.results import Results
from tests.support.clock import FakeClock, LeapingClock
from tests.support.cluster.discovered import documented_discovery
from tests.support.cluster.scripted_cluster import ScriptedCluster

ALL_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]

# (group, version, plural, kind, namespaced)
SERVED: tuple[tuple[str, str, str, str, bool], ...] = (
    ("", "v1", "namespaces", "Namespace", False),
    ("", "v1", "nodes", "Node", False),
    ("", "v1", "persistentvolumes", "PersistentVolume", False),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True),
    ("", "v1", "pods", "Pod", True),
    ("", "v1", "configmaps", "ConfigMap", True),
    ("", "v1", "secrets", "Secret", True),
    ("", "v1", "resourcequotas", "ResourceQuota", True),
    ("", "v1", "serviceaccounts", "ServiceAccount", True),
    ("", "v1", "services", "Service", True),
    ("apps", "v1", "deployments", "Deployment", True),
    ("apps", "v1", "replicasets", "ReplicaSet", True),
    ("batch", "v1", "jobs", "Job", True),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass", False),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False),
    ("apiregistration.k8s.io", "v1", "apiservices", "APIService", False),
    ("quota.openshift.io", "v1", "clusterresourcequotas", "ClusterResourceQuota", False),
    ("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", True),
    ("snapshot.storage.k8s.io", "v1", "volumesnapshotcontents", "VolumeSnapshotContent", False),
    ("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses", "VolumeSnapshotClass", False),
    ("velero.io", "v1", "deletebackuprequests", "DeleteBackupRequest", True),
    ("velero.io", "v2alpha1", "datauploads", "DataUpload", True),
    ("velero.io", "v1", "podvolumebackups", "PodVolumeBackup", True),
)
SHORT_NAMES = {"pods": ["po"], "configmaps": ["cm"], "deployments": ["deploy"], "persistentvolumes": ["pv"]}


def discovery(*more: tuple[str, str, str, str, bool]) -> Discovery:
    """What the world serves, and more."""
    lists: dict[str, list[JSONObject]] = {}
    for group, version, plural, kind, namespaced in (*SERVED, *more):
        lists.setdefault(f"{group}/{version}".lstrip("/"), []).append(
            {
                "name": plural,
                "kind": kind,
                "namespaced": namespaced,
                "singularName": kind.lower(),
                "verbs": ALL_VERBS,
                "shortNames": SHORT_NAMES.get(plural, []),
            }
        )
    lists["apps/v1"].append({"name": "deployments/status", "kind": "Deployment", "namespaced": True})
    return documented_discovery(
        {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}
        for group_version, resources in lists.items()
    )


def world_of(*objects: JSONObject) -> ScriptedCluster:
    """A cluster to restore into, with some objects."""
    world = ScriptedCluster()
    for item in objects:
        world.put(item)
    return world


def labels_of(item: JSONObject) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].get("labels") or {}
    return found


class Numbers:
    """A progress sink that remembers."""

    def __init__(self) -> None:
        self.published: list[tuple[int, int]] = []

    async def publish(self, total_items: int, items_restored: int) -> None:
        self.published.append((total_items, items_restored))


def key_of(item: JSONObject) -> tuple[str, str, str]:
    group = item["apiVersion"].rpartition("/")[0]
    for served_group, _, plural, kind, _ in SERVED:
        if (served_group, kind) == (group, item["kind"]):
            group_resource = f"{plural}.{group}" if group else plural
            return (group_resource, item["metadata"].get("namespace", ""), item["metadata"]["name"])
    raise AssertionError(f"the world serves no {item['kind']}")


def obj(kind: str, name: str, namespace: str = "", *, api_version: str = "v1", **fields: Any) -> JSONObject:
    """An object; `labels` and `annotations` go into its metadata."""
    metadata: JSONObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    for field in ("labels", "annotations"):
        if field in fields:
            metadata[field] = fields.pop(field)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def pod(name: str, namespace: str = "ns-1", **fields: Any) -> JSONObject:
    return obj("Pod", name, namespace, **{"spec": {}, **fields})


def configmap(name: str, namespace: str = "ns-1", **fields: Any) -> JSONObject:
    return obj("ConfigMap", name, namespace, **fields)


def deployment(name: str, namespace: str = "ns-1", **fields: Any) -> JSONObject:
    return obj("Deployment", name, namespace, api_version="apps/v1", **{"spec": {}, **fields})


def job(name: str, namespace: str = "ns-1", **fields: Any) -> JSONObject:
    return obj("Job", name, namespace, api_version="batch/v1", **{"spec": {}, **fields})


def volume(name: str, **fields: Any) -> JSONObject:
    spec = {"persistentVolumeReclaimPolicy": fields.pop("policy", "Retain"), **fields.pop("spec", {})}
    return obj("PersistentVolume", name, spec=spec, **fields)


def claim(name: str, namespace: str = "ns-1", **fields: Any) -> JSONObject:
    return obj("PersistentVolumeClaim", name, namespace, **{"spec": {}, **fields})


def with_records(fields: JSONObject) -> JSONObject:
    """These fields of a request, with `records` of its snapshots, PodVolumeBackups, infos and operations."""
    infos = fields.get("volume_infos", ())
    backups = [encode(each) for each in fields.get("pod_volume_backups", ())]
    records = BackupRecords(
        native=fields.get("snapshots", ()),
        pod_volumes=SavedPodVolumes(pod_volumes(backups, infos)),
        infos=infos,
        operations=fields.get("item_operations", ()),
    )
    files = ("snapshots", "pod_volume_backups", "volume_infos", "item_operations")
    return {**{key: value for key, value in fields.items() if key not in files}, "records": records}


async def archive_of(
    directory: Path,
    items: Iterable[JSONObject] = (),
    *,
    files: Mapping[str, bytes] | None = None,
    with_versions: bool = False,
) -> ArchiveIndex:
    """A backup with these items and these raw files."""
    path = await tarball_of(directory, items, files=files)
    return await ArchiveIndex.open(path, directory, with_versions=with_versions, with_other_versions=True)


async def tarball_of(
    directory: Path, items: Iterable[JSONObject] = (), *, files: Mapping[str, bytes] | None = None
) -> Path:
    """The tarball of such a backup."""
    path = directory / f"backup-{uuid.uuid4()}.tar.gz"
    async with ArchiveWriter(path, clock=FakeClock()) as writer:
        for item in items:
            writer.add(item_path(key_of(item)[0], None, *key_of(item)[1:]), orjson.dumps(item))
        for name, data in (files or {}).items():
            writer.add(name, data)
        await writer.close()
    return path


def outcome_of(outcomes: ItemOutcomes, kind: str, key: str) -> str:
    """The outcome of the object `namespace/name`, or `name`, of a restore."""
    groups = outcomes.details(with_created=True)["groups"]
    (outcome,) = [group["outcome"] for group in groups if key in group["objects"].get(kind, ())]
    return str(outcome)


class Harness:
    """A restore engine with a simulated cluster, and the settings of its restores."""

    def __init__(self, directory: Path, world: ScriptedCluster | None = None) -> None:
        self.directory = directory
        self.world = world or world_of()
        self.discovery = discovery()
        self.log = RunLog(None, fields={})
        self.numbers = Numbers()
        self.clock = LeapingClock()
        self.actions: list[RestoreItemAction] | None = None
        self.options = RestoreSettings()
        self.collaborators = RestoreCollaborators()
        self.backup = Backup(metadata=ObjectMeta(name="backup-1"), spec=BackupSpec(), status=BackupStatus())
        self.request_fields: JSONObject = {}
        self.annotations: dict[str, str] = {}
        self.restore_labels: dict[str, str] = {}
        self.loads = 0
        self.outcomes = ItemOutcomes()

    async def load_discovery(self) -> Discovery:
        self.loads += 1
        definitions = [
            item["spec"] for key, item in self.world.objects.items() if key[0].startswith("customresource")
        ]
        more = [
            (spec["group"], "v1", spec["names"]["plural"], spec["names"]["kind"], True)
            for spec in definitions
        ]
        return discovery(*more)

    async def restore(
        self, *items: JSONObject, files: Mapping[str, bytes] | None = None, **spec: Any
    ) -> Results:
        """Restore an archive with these items; the keywords are fields of the Restore's spec."""
        with_versions = bool(self.options.features)
        with await archive_of(self.directory, items, files=files, with_versions=with_versions) as archive:
            return await self.run(archive, **spec)

    async def run(self, archive: ArchiveIndex, **spec: Any) -> Results:
        metadata = ObjectMeta(
            name="restore-1", namespace="velero", annotations=self.annotations, labels=self.restore_labels
        )
        restore = Restore(metadata=metadata, spec=RestoreSpec(backup_name="backup-1", **spec))
        actions = self.actions
        if actions is None:
            actions = restore_actions(self.world, self.discovery, "velero")
        engine = RestoreEngine(
            ClusterAccess(
                client=self.world,
                discovery=self.discovery,
                load_discovery=self.load_discovery,
                clock=self.clock,
            ),
            actions=actions,
            log=self.log,
            progress=self.numbers.publish,
            options=self.options,
            collaborators=self.collaborators,
        )
        fields = with_records(self.request_fields)
        request = RestoreRequest(restore=restore, backup=self.backup, **fields)
        self.outcomes = ItemOutcomes()
        return await engine.run(request, archive, self.outcomes)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """An engine before an empty cluster."""
    return Harness(tmp_path)

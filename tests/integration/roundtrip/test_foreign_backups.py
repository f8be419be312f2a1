"""Backups that another program wrote: Velero's layout with directory entries, old and new versions of it."""

import gzip
import io
import json
import secrets
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import CONFIGMAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NAMESPACES, SECRETS
from tests.e2e.without_server.command import Pinnace

LONG_NAME = "n" * 150

BACKUP_118: JSONObject = {
    "kind": "Backup",
    "apiVersion": "velero.io/v1",
    "metadata": {
        "name": "foreign",
        "namespace": "velero",
        "uid": "6f9f7d0e-1f0a-4f3e-9f5b-0d0c3a1f7a11",
        "resourceVersion": "1234",
        "generation": 7,
        "creationTimestamp": "2024-05-06T07:08:09Z",
        "labels": {"velero.io/storage-location": "default"},
        "annotations": {"velero.io/resource-timeout": "10m0s"},
        "managedFields": [{"manager": "velero-server", "operation": "Update", "fieldsType": "FieldsV1"}],
    },
    "spec": {
        "metadata": {},
        "ttl": "720h0m0s",
        "includedNamespaces": ["*"],
        "hooks": {},
        "storageLocation": "default",
        "defaultVolumesToFsBackup": False,
        "csiSnapshotTimeout": "10m0s",
        "itemOperationTimeout": "4h0m0s",
        "snapshotMoveData": False,
        "datamover": "velero-fs",
        "uploaderConfig": {"parallelFilesUpload": 10},
        "resourcePolicy": {"kind": "configmap", "name": "policy"},
        "excludedNamespaceScopedResources": ["events"],
    },
    "status": {
        "version": 1,
        "formatVersion": "1.1.0",
        "phase": "Completed",
        "startTimestamp": "2024-05-06T07:08:09Z",
        "completionTimestamp": "2024-05-06T07:09:10Z",
        "expiration": "2124-06-05T07:08:09Z",
        "progress": {"totalItems": 6, "itemsBackedUp": 6},
        "hookStatus": {"hooksAttempted": 0},
        "backupItemOperationsAttempted": 2,
        "csiVolumeSnapshotsAttempted": 1,
        "csiVolumeSnapshotsCompleted": 1,
    },
}


def old(backup: JSONObject) -> JSONObject:
    """The same from the first days: no versions in the tarball."""
    status = {**backup["status"], "formatVersion": "1"}
    return {**backup, "status": status}


def objects(namespace: str, group: str) -> dict[str, JSONObject]:
    """By path below `resources/`, without the version directories."""
    inside = f"namespaces/{namespace}"

    def config_map(name: str) -> JSONObject:
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": "1",
            "resourceVersion": "5",
            "creationTimestamp": "2020-01-01T00:00:00Z",
        }
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b\n"}}

    labels = {"app": "web"}
    container = {"name": "main", "image": "registry.invalid/none"}
    return {
        f"namespaces/cluster/{namespace}.json": {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"team": "blue"}, "uid": "0"},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        },
        f"configmaps/{inside}/one.json": config_map("one"),
        f"configmaps/{inside}/{LONG_NAME}.json": config_map(LONG_NAME),
        f"secrets/{inside}/password.json": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "password", "namespace": namespace, "ownerReferences": []},
            "data": {"password": "c2VjcmV0"},
            "type": "Opaque",
        },
        f"deployments.apps/{inside}/web.json": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace, "generation": 4},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
            "status": {"observedGeneration": 4},
        },
        f"widgets.{group}/{inside}/wheel.json": {
            "apiVersion": f"{group}/v1",
            "kind": "Widget",
            "metadata": {"name": "wheel", "namespace": namespace},
            "spec": {"count": 9007199254740993, "ratio": 0.1, "text": "<&>"},
        },
        f"customresourcedefinitions.apiextensions.k8s.io/cluster/widgets.{group}.json": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {
                    "plural": "widgets",
                    "singular": "widget",
                    "kind": "Widget",
                    "listKind": "WidgetList",
                },
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                ],
            },
        },
    }


def tarball(entries: dict[str, JSONObject], *, form: int, version: str, directories: bool) -> bytes:
    """A tarball as Python's own tarfile makes it, with an entry for every directory if asked for."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=form) as archive:
        content = {f"resources/{path}": json.dumps(obj, indent=1).encode() for path, obj in entries.items()}
        content["metadata/version"] = version.encode()
        seen: set[str] = set()
        for path, data in content.items():
            for parent in reversed([str(parent) for parent in Path(path).parents][:-1]):
                if directories and parent not in seen:
                    seen.add(parent)
                    folder = tarfile.TarInfo(f"{parent}/")
                    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(folder)
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.uname, entry.gname = len(data), 0o755, "velero", "velero"
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def with_versions(entries: dict[str, JSONObject]) -> dict[str, JSONObject]:
    """Every entry also in the directory of its version."""
    found = {}
    for path, obj in entries.items():
        resource, _, rest = path.partition("/")
        version = obj["apiVersion"].rpartition("/")[2]
        found[f"{resource}/{version}-preferredversion/{rest}"] = obj
        found[path] = obj
    return found


@pytest.fixture
def names() -> tuple[str, str]:
    """A namespace and an API group that exist nowhere yet."""
    token = secrets.token_hex(4)
    return f"foreign-{token}", f"g{token}.example.com"


async def restored_world(client: KubeClient, namespace: str, group: str) -> dict[str, Any]:
    widgets = (await Discovery.load(client)).preferred(f"widgets.{group}")
    assert widgets is not None
    found: dict[str, Any] = {
        "labels": (await client.get(NAMESPACES, namespace))["metadata"]["labels"],
        "password": (await client.get(SECRETS, "password", namespace))["data"],
        "replicas": (await client.get(DEPLOYMENTS, "web", namespace))["spec"]["replicas"],
        "widget": (await client.get(widgets, "wheel", namespace))["spec"],
        "one": (await client.get(CONFIGMAPS, "one", namespace))["data"],
        "long": (await client.get(CONFIGMAPS, LONG_NAME, namespace))["data"],
    }
    await client.delete(NAMESPACES, namespace)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, widgets.group_resource)
    return found


@pytest.mark.parametrize(
    ("form", "new"),
    [
        pytest.param(tarfile.GNU_FORMAT, False, id="first-format-gnu"),
        pytest.param(tarfile.PAX_FORMAT, True, id="version-1.18-pax"),
    ],
)
@pytest.mark.spec("AFT-130")
async def test_a_foreign_backup_is_listed_described_and_restored(
    control_plane: ControlPlane,
    client: KubeClient,
    tmp_path: Path,
    names: tuple[str, str],
    form: int,
    new: bool,
) -> None:
    namespace, group = names
    location = tmp_path / "location"
    folder = location / "backups/foreign"
    folder.mkdir(parents=True)
    entries = objects(namespace, group)
    backup = BACKUP_118 if new else old(BACKUP_118)
    (folder / "velero-backup.json").write_text(json.dumps(backup))
    (folder / "foreign.tar.gz").write_bytes(
        tarball(
            with_versions(entries) if new else entries,
            form=form,
            version="1.1.0\n" if new else "1\n",
            directories=True,
        )
    )
    (folder / "foreign-logs.gz").write_bytes(gzip.compress(b"a line\n"))
    if new:
        for name in ("itemoperations", "volumeinfo", "csi-volumesnapshotclasses", "resource-list"):
            content = b'{"v1/Secret": ["a/password"]}' if name == "resource-list" else b"[]"
            (folder / f"foreign-{name}.json.gz").write_bytes(gzip.compress(content))
        (folder / "foreign-results.gz").write_bytes(gzip.compress(b'{"errors":{},"warnings":{}}'))
        (location / "kopia/ns").mkdir(parents=True)
        (location / "kopia/ns/kopia.repository.f").write_bytes(b"repository")
    pinnace = Pinnace(tmp_path, kubeconfig=control_plane.kubeconfig, location=str(location))

    listed = await pinnace("backup", "get", "-o", "json")
    described = await pinnace("backup", "describe", "--details")
    outcome = await pinnace("restore", "create", "r1", "--from-backup", "foreign")

    assert (listed.code, listed.err, described.code, described.err) == (0, "", 0, "")
    assert json.loads(listed.out) == backup  # the fields that we do not know included
    assert f"Backup Format Version:  {'1.1.0' if new else '1'}" in described.lines
    assert ("  v1/Secret:" in described.lines) == new
    assert "Data Mover:  velero-fs" in described.lines
    assert (outcome.code, outcome.told) == (0, "")
    assert ", 0 errors, 0 warnings." in outcome.lines[-1]
    found = await restored_world(client, namespace, group)
    assert found.pop("labels")["team"] == "blue"
    assert found == {
        "password": {"password": "c2VjcmV0"},
        "replicas": 0,
        "widget": {"count": 9007199254740993, "ratio": 0.1, "text": "<&>"},
        "one": {"a": "b\n"},
        "long": {"a": "b\n"},
    }

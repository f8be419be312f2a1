"""Files that the owner of a bucket writes by hand, against a real S3 server and the whole server.

(docs/spec: NAC 17 A13 to A15, A33 to A35)
"""

import gzip
import json
import logging
import secrets
import tarfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from hack.cluster.stores.s3 import Bucket
from pinnace.api.labels import label_value
from pinnace.api.nonadmin.names import COMMON_LABELS, TRUST_LABEL, Origin
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.controllers.sync import backup_sync
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CONFIGMAPS,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    APIResource,
    velero,
)
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from tests.integration.nonadmin.buckets import ENDED, RBAC, OwnBucket, hostile_items
from tests.support.cluster.snapshot_crds import ensure_snapshot_crds
from tests.support.servers.self_service import BACKUPS, RESTORES, NewTenant, Serve, Server, Tenant
from tests.support.servers.sites import running as running_server
from tests.support.waiting import eventually

POD_VOLUME_BACKUPS = velero("podvolumebackups")
PRIORITY_CLASSES = APIResource(
    group="scheduling.k8s.io", version="v1", name="priorityclasses", kind="PriorityClass", namespaced=False
)
ROLE_BINDINGS = APIResource(
    group=RBAC, version="v1", name="rolebindings", kind="RoleBinding", namespaced=True
)
LEFT_OUT = "Backup is not, or not wholly, made known"


class StartServer(Protocol):
    """The `start_server` fixture."""

    async def __call__(self, **options: Any) -> None: ...


@pytest.fixture
async def evil(serve: Serve, server: Server, tenant: Tenant, bucket: Bucket) -> OwnBucket:
    """The bucket of a tenant with the role `edit`, in a location that was approved."""
    await serve(sync_period=Duration.seconds(1), velero_sync_period=Duration.seconds(0.5))
    made = OwnBucket(server, tenant, bucket)
    await made.create()
    return made


@pytest.fixture
async def start_server(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[StartServer]:
    """A function that starts the backup server; it looks through all locations at once, and then often."""
    monkeypatch.setattr(backup_sync, "PERIOD_SECONDS", 0.5)
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> None:
            started = running_server(server.client, server.namespace, tmp_path, **options)
            await stack.enter_async_context(started)

        yield start


async def names(server: Server, resource: APIResource) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await server.all(resource))


async def is_there(client: KubeClient, resource: APIResource, name: str, namespace: str = "") -> bool:
    try:
        await client.get(resource, name, namespace or None)
    except NotFound:
        return False
    return True


# --- What is made known (A14, A33, A34, A35) ------------------------------------------------------------


@pytest.mark.spec("NAC-060")
@pytest.mark.parametrize("status", [{"phase": "New"}, {}, {"phase": "InProgress"}], ids=str)
async def test_a33_a_file_starts_no_backup(
    server: Server,
    evil: OwnBucket,
    start_server: StartServer,
    status: JSONObject,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await evil.plant("forged", status=status, includedNamespaces=["*"])
    await evil.plant("forged-as-own", status=status)
    await start_server()
    await evil.synced()

    assert await server.all(BACKUPS) == []
    assert [record.message for record in caplog.records].count(LEFT_OUT) == 2
    assert await evil.names() == sorted([evil.named("forged"), evil.named("forged-as-own")])


@pytest.mark.spec("NAC-049", "NAC-060")
async def test_a14_a_bucket_cannot_give_backups_to_other_tenants(
    server: Server, evil: OwnBucket, start_server: StartServer, new_tenant: NewTenant
) -> None:
    victim = await new_tenant()
    await victim.back_up("nightly")
    unique_id = (await victim.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
        "name"
    ]
    await server.set_status(BACKUPS, unique_id, phase="Completed", completionTimestamp="2030-01-01T00:00:00Z")
    before = await server.client.get(BACKUPS, unique_id, server.namespace)
    own = evil.tenant.namespace
    await evil.plant("of-the-victim", origin=victim.namespace)
    await evil.plant("of-both", origin=victim.namespace, includedNamespaces=[own])
    await evil.plant("with-the-victims-id", id_label=unique_id)
    await evil.plant("of-the-victim-with-its-id", origin=victim.namespace, id_label=unique_id)
    await evil.plant(unique_id)
    await evil.plant("of-everything", includedNamespaces=["*"])
    await evil.plant("of-another", includedNamespaces=[own, victim.namespace])
    await evil.plant("honest")
    await start_server()
    await evil.synced()

    # The one honest file is made known, and its request: then everything else was looked at too.
    await evil.tenant.reached(NON_ADMIN_BACKUPS, "of-honest", "Created")
    assert await names(server, BACKUPS) == sorted([evil.named("honest"), unique_id])
    found = await server.client.get(BACKUPS, unique_id, server.namespace)
    assert (found["metadata"]["uid"], found["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert [
        each["metadata"]["name"] for each in await victim.client.list_all(NON_ADMIN_BACKUPS, victim.namespace)
    ] == ["nightly"]
    assert len(await evil.tenant.client.list_all(NON_ADMIN_BACKUPS, own)) == 1
    non_admin_backup = await victim.get(NON_ADMIN_BACKUPS, "nightly")
    assert (non_admin_backup["status"]["phase"], non_admin_backup["status"]["veleroBackup"]["name"]) == (
        "Created",
        unique_id,
    )


async def test_a14_a_server_that_believes_its_bucket_misleads_no_tenant(
    server: Server, evil: OwnBucket, new_tenant: NewTenant
) -> None:
    """Beside a Velero server, whose own sync believes the file."""
    victim = await new_tenant()
    await victim.back_up("nightly")
    unique_id = (await victim.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
        "name"
    ]
    own = await server.client.get(BACKUPS, unique_id, server.namespace)
    for name, labels in (("forged", own["metadata"]["labels"]), ("other", {})):
        marked = {**own["metadata"]["labels"], "openshift.io/oadp-nab-origin-nacuuid": name, **labels}
        notes = {**own["metadata"]["annotations"], "openshift.io/oadp-nab-origin-name": f"of-{name}"}
        await server.add(
            BACKUPS,
            name,
            metadata={"labels": marked, "annotations": notes},
            spec={"storageLocation": evil.location, "includedNamespaces": [victim.namespace]},
            status=ENDED,
        )
    await server.set_status(BACKUPS, unique_id, **ENDED)
    non_admin_backup = await victim.until(
        NON_ADMIN_BACKUPS,
        "nightly",
        lambda obj: obj["status"]["veleroBackup"].get("status", {}).get("phase") == "Completed",
    )
    assert non_admin_backup["status"]["veleroBackup"]["name"] == unique_id
    # The files of the bucket's owner can be neither taken over nor restored by any tenant.
    forged = {"labels": {"openshift.io/oadp-nab-synced-from-nacuuid": "other"}}
    for one in (victim, evil.tenant):
        await one.back_up("of-other", metadata=forged)
        assert "does not exist" in await one.refused(NON_ADMIN_BACKUPS, "of-other")
        await one.restore("back", backupName="of-other")
        assert "backupName is invalid" in await one.refused(NON_ADMIN_RESTORES, "back")
    assert await server.all(RESTORES) == []


def pod_volume_backup(name: str, namespace: str, phase: str = "Completed", **marks: str) -> JSONObject:
    return {
        "apiVersion": "velero.io/v1",
        "kind": "PodVolumeBackup",
        "metadata": {
            "name": name,
            "labels": marks,
            "ownerReferences": [
                {"apiVersion": "velero.io/v1", "kind": "Backup", "name": "v", "uid": "uid-of-the-victim"}
            ],
        },
        "spec": {
            "node": "node-of-the-victim",
            "pod": {"kind": "Pod", "namespace": namespace, "name": "p", "uid": "uid-of-a-pod"},
            "volume": "data",
            "backupStorageLocation": "default",
            "repoIdentifier": "s3:evil/restic/evil",
        },
        "status": {"phase": phase, "snapshotID": "0123abcd", "path": "/host_pods"},
    }


@pytest.mark.spec("NAC-061")
async def test_a34_a_file_starts_no_copy_of_a_volume(
    server: Server, evil: OwnBucket, start_server: StartServer, new_tenant: NewTenant
) -> None:
    victim = await new_tenant()
    await victim.back_up("nightly")
    unique_id = (await victim.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
        "name"
    ]
    own = evil.tenant.namespace
    label = {"velero.io/backup-name": unique_id, "velero.io/backup-uid": "uid-of-the-victim"}
    volumes = [
        pod_volume_backup("new-of-the-victim", victim.namespace, "New"),
        pod_volume_backup("new-of-own", own, "New"),
        pod_volume_backup("without-phase", own, ""),
        pod_volume_backup("ended-of-the-victim", victim.namespace, **label),
        pod_volume_backup("ended-of-own", own, **label),
    ]
    await evil.plant("honest", files={"-podvolumebackups.json.gz": volumes})
    await start_server()
    await evil.synced()

    (made,) = await server.all(POD_VOLUME_BACKUPS)
    honest = await server.client.get(BACKUPS, evil.named("honest"), server.namespace)
    assert made["metadata"]["name"] == "ended-of-own"
    assert made["metadata"]["labels"] == {
        "velero.io/backup-name": label_value(evil.named("honest")),
        "velero.io/backup-uid": honest["metadata"]["uid"],
    }
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [honest["metadata"]["uid"]]
    assert made["spec"]["backupStorageLocation"] == evil.location
    non_admin_backup = await victim.get(NON_ADMIN_BACKUPS, "nightly")
    assert not non_admin_backup["status"].get("fileSystemPodVolumeBackups")


async def test_a35_no_content_of_a_snapshot_is_made_known(
    server: Server, evil: OwnBucket, start_server: StartServer
) -> None:
    kinds = await ensure_snapshot_crds(server.client)
    name = f"forged-{secrets.token_hex(4)}"
    content = {
        "apiVersion": kinds.contents.api_version,
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": "disks.example.com",
            "source": {"snapshotHandle": "snap-of-the-victim"},
            "volumeSnapshotRef": {"namespace": evil.tenant.namespace, "name": "mine"},
        },
        "status": {"snapshotHandle": "snap-of-the-victim"},
    }
    await evil.plant("honest", files={"-csi-volumesnapshotcontents.json.gz": [content]})
    await start_server(features=frozenset({"EnableCSI"}))
    await evil.synced()

    assert await names(server, BACKUPS) == [evil.named("honest")]
    assert not await is_there(server.client, kinds.contents, name)


def odd_files(evil: OwnBucket) -> dict[str, bytes]:
    """Metadata files that no server wrote, by their keys below the tenant's prefix."""

    def key(name: str) -> str:
        return f"backups/{name}/velero-backup.json"

    own = [evil.named(f"odd-{number:02}") for number in range(12)]
    deep = b'{"apiVersion":"velero.io/v1","kind":"Backup","x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    return {
        key(own[0]): b"",
        key(own[1]): b"null",
        key(own[2]): deep,
        key(own[3]): b"\xff\xfe",
        key(own[4]): b'{"apiVersion":"velero.io/v1","kind":"Restore"}',
        key(own[5]): b'{"a":NaN}',
        key(own[6]): b"{" + b" " * (5 << 20) + b"}",
        key(own[7]): gzip.compress(b"0" * (8 << 20)),
        key("UPPER_case"): b"{}",
        key("daily-20261123000000"): b"{}",
        key("a" * 200): b"{}",
        key("\x1b[2J"): b"{}",
        key("with blank"): b"{}",
        key("percent%2fslash"): b"{}",
        f"backups/{own[8]}/{own[8]}.tar.gz": b"no backup yet",
        "backups/file": b"x",
    }


async def test_odd_files_are_reported_once_and_delay_no_honest_backup(
    server: Server,
    evil: OwnBucket,
    start_server: StartServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They caused errors in each pass, and the back-off after those delayed the honest backup."""
    monkeypatch.setattr(backup_sync, "PERIOD_SECONDS", 0.5)
    await evil.put(odd_files(evil))
    invalid = await evil.plant("invalid", labelSelector={"matchLabels": {"": "x"}})
    unnamed = evil.named("of-no-request")
    marked = {"labels": {**COMMON_LABELS, Origin.BACKUP.id_label: unnamed}}
    marked["annotations"] = {
        Origin.BACKUP.namespace_annotation: evil.tenant.namespace,
        Origin.BACKUP.name_annotation: "Not/A name",
    }
    backup = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": marked, "status": ENDED}
    backup["spec"] = {"includedNamespaces": [evil.tenant.namespace]}
    await evil.put({f"backups/{unnamed}/velero-backup.json": json.dumps(backup).encode()})
    await start_server()
    for _ in range(3):
        await evil.synced()
    told = [record for record in caplog.records if record.message == LEFT_OUT]

    honest = await evil.plant("honest")
    begun = time.monotonic()
    await evil.tenant.reached(NON_ADMIN_BACKUPS, "of-honest", "Created")
    assert time.monotonic() - begun < 60  # without this, a back-off of 100 s and more

    assert set(await names(server, BACKUPS)) <= {honest, invalid}
    again = [record for record in caplog.records if record.message == LEFT_OUT]
    assert 10 <= len(told) <= 16
    assert len(again) == len(told)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# --- What is restored (A13, A15) ------------------------------------------------------------------------


SNAPSHOT = {
    "spec": {"persistentVolumeName": "", "location": "of-the-administrator", "volumeType": "t"},
    "status": {"providerSnapshotID": "snap-of-the-victim", "phase": "Completed"},
}


@pytest.fixture
async def word(client: KubeClient) -> AsyncIterator[str]:
    """A name for hostile objects; those that reach the cluster are deleted after the test."""
    name = f"evil-{secrets.token_hex(4)}"
    yield name
    for resource, namespace in (
        (CLUSTER_ROLE_BINDINGS, ""),
        (PERSISTENT_VOLUMES, ""),
        (PRIORITY_CLASSES, ""),
        (CONFIGMAPS, "kube-system"),
    ):
        if await is_there(client, resource, name, namespace):
            await client.delete(resource, name, namespace or None)


async def planted(evil: OwnBucket, word: str) -> None:
    own = evil.tenant.namespace
    record = {**SNAPSHOT, "spec": {**SNAPSHOT["spec"], "persistentVolumeName": word}}
    await evil.plant("b1", items=hostile_items(own, word), files={"-volumesnapshots.json.gz": [record]})


async def restored(client: KubeClient, namespace: str, word: str) -> list[str]:
    """The hostile items that are in the cluster."""
    kinds = await ensure_snapshot_crds(client)
    endpoints = APIResource(group="", version="v1", name="endpoints", kind="Endpoints", namespaced=True)
    places = {
        "ClusterRoleBinding": (CLUSTER_ROLE_BINDINGS, ""),
        "RoleBinding": (ROLE_BINDINGS, namespace),
        "PersistentVolume": (PERSISTENT_VOLUMES, ""),
        "ConfigMap of another namespace": (CONFIGMAPS, "kube-system"),
        "Endpoints": (endpoints, namespace),
        "VolumeSnapshot": (kinds.snapshots, namespace),
    }
    found = [name for name, place in places.items() if await is_there(client, place[0], word, place[1])]
    contents = await client.list_all(kinds.contents)
    bound = [each["spec"]["volumeSnapshotRef"] for each in contents]
    return [*found, *("VolumeSnapshotContent" for each in bound if each.get("namespace") == namespace)]


async def test_a13_a15_a_tenant_restores_nothing_but_what_it_may_have(
    server: Server, evil: OwnBucket, start_server: StartServer, word: str
) -> None:
    tenant = evil.tenant
    await ensure_snapshot_crds(server.client)
    await planted(evil, word)
    await start_server(features=frozenset({"EnableCSI"}))
    await tenant.reached(NON_ADMIN_BACKUPS, "of-b1", "Created")

    await tenant.restore("back", backupName="of-b1", restorePVs=True)
    non_admin_restore = await tenant.until(
        NON_ADMIN_RESTORES,
        "back",
        lambda obj: "completionTimestamp" in str((obj.get("status") or {}).get("veleroRestore")),
    )

    assert (await tenant.get(CONFIGMAPS, "prices"))["data"] == {"tea": "3"}
    assert await restored(server.client, tenant.namespace, word) == []
    assert non_admin_restore["status"]["veleroRestore"]["status"]["phase"] == "Completed"
    # Nor does deleting it for good ask for a snapshot that the cluster has not made.
    await tenant.client.patch(NON_ADMIN_BACKUPS, "of-b1", {"spec": {"deleteBackup": True}}, tenant.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "of-b1")
    assert await evil.names() == []
    assert await server.all(BACKUPS) == []


async def test_a13_a_pod_brings_no_priority_class_from_a_tenants_bucket(
    server: Server, evil: OwnBucket, start_server: StartServer, word: str
) -> None:
    """Else a tenant could preempt everybody: a restored pod brings the class that it names."""
    tenant, own = evil.tenant, evil.tenant.namespace
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": word}
    items: dict[str, JSONObject] = {
        f"pods/namespaces/{own}/p": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": own},
            "spec": spec,
        },
        f"{PRIORITY_CLASSES.name}.{PRIORITY_CLASSES.group}/cluster/{word}": {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": word},
            "value": 1_000_000_000,
        },
    }
    await evil.plant("b1", items=items)
    await start_server()
    await tenant.reached(NON_ADMIN_BACKUPS, "of-b1", "Created")

    await tenant.restore("back", backupName="of-b1")
    ended = await tenant.until(
        NON_ADMIN_RESTORES,
        "back",
        lambda obj: "completionTimestamp" in str((obj.get("status") or {}).get("veleroRestore")),
    )

    assert not await is_there(server.client, PRIORITY_CLASSES, word, "")
    # The pod was tried, and the cluster refused it.
    status = ended["status"]["veleroRestore"]["status"]
    assert (status["phase"], status["errors"]) == ("PartiallyFailed", 1)


@pytest.mark.parametrize("trusted", [False, True], ids=["as it is", "trusted"])
async def test_a13_a15_an_administrators_restore_is_confined_unless_the_content_is_trusted(
    server: Server, evil: OwnBucket, start_server: StartServer, word: str, trusted: bool
) -> None:
    tenant = evil.tenant
    kinds = await ensure_snapshot_crds(server.client)
    assert kinds is not None
    await planted(evil, word)
    await start_server()
    await eventually(lambda: is_there(server.client, BACKUPS, evil.named("b1"), server.namespace))

    labels = {TRUST_LABEL: "true"} if trusted else {}
    await server.add(RESTORES, "admins", metadata={"labels": labels}, spec={"backupName": evil.named("b1")})
    done = await ended(server, "admins")

    assert (await tenant.get(CONFIGMAPS, "prices"))["data"] == {"tea": "3"}
    found = await restored(server.client, tenant.namespace, word)
    if trusted:
        # The positive control: the tarball does hold it all. The snapshot's location is not there, though.
        assert {"ClusterRoleBinding", "RoleBinding", "ConfigMap of another namespace", "Endpoints"} <= {
            *found
        }
        assert done["status"]["phase"] == "PartiallyFailed"
        assert "includedNamespaces" not in done["spec"]
    else:
        assert found == []
        # One that explains it, and one for each kind that is left out.
        assert (done["status"]["phase"], done["status"].get("warnings", 0) > 1) == ("Completed", True)
        assert done["spec"]["includedNamespaces"] == [tenant.namespace]
        assert done["spec"]["includeClusterResources"] is False


async def test_a13_what_an_administrator_asks_for_beyond_it_is_refused(
    server: Server, evil: OwnBucket, start_server: StartServer, word: str
) -> None:
    await planted(evil, word)
    await start_server()
    await eventually(lambda: is_there(server.client, BACKUPS, evil.named("b1"), server.namespace))

    spec = {"backupName": evil.named("b1"), "includedNamespaces": ["kube-system"]}
    await server.add(RESTORES, "admins", spec=spec)
    done = await ended(server, "admins")

    assert done["status"]["phase"] == "FailedValidation"
    (problem,) = done["status"]["validationErrors"]
    assert f"location of the namespace {evil.tenant.namespace}" in problem
    assert TRUST_LABEL in problem
    assert await restored(server.client, evil.tenant.namespace, word) == []


async def test_a13_a_namespace_is_not_made_after_a_tenants_pattern(
    server: Server, evil: OwnBucket, start_server: StartServer, word: str
) -> None:
    own = evil.tenant.namespace
    lifted = {"pod-security.kubernetes.io/enforce": "privileged"}
    items = hostile_items(own, word)
    metadata = {"name": own, "labels": lifted}
    items[f"namespaces/cluster/{own}"] = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    await evil.plant("b1", items=items)
    await start_server()
    await eventually(lambda: is_there(server.client, BACKUPS, evil.named("b1"), server.namespace))

    await server.add(
        RESTORES, "admins", spec={"backupName": evil.named("b1"), "namespaceMapping": {own: word}}
    )
    done = await ended(server, "admins")

    assert done["status"]["phase"] == "PartiallyFailed"
    assert not await is_there(server.client, NAMESPACES, word)


async def ended(server: Server, restore: str) -> JSONObject:
    """A Restore, once it has ended."""
    found: JSONObject = {}

    async def check() -> bool:
        found.update(await server.client.get(RESTORES, restore, server.namespace))
        phase = (found.get("status") or {}).get("phase")
        return phase in ("Completed", "PartiallyFailed", "Failed", "FailedValidation")

    await eventually(check)
    return found


# --- What a real server backs up (A3) -------------------------------------------------------------------


async def test_a3_cluster_scoped_kinds_bring_nothing(
    server: Server, tenant: Tenant, serve: Serve, start_server: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / "bucket"
    folder.mkdir()
    spec = {
        "provider": "pinnace.io/filesystem",
        "config": {"path": str(tmp_path)},
        "objectStorage": {"bucket": folder.name},
        "default": True,
    }
    await server.add(velero("backupstoragelocations"), "default", spec=spec)
    await serve()
    await start_server()
    kinds = ["nodes", "storageclasses", "namespaces", "persistentvolumes", "configmaps"]
    await tenant.create(CONFIGMAPS, "prices", None)
    await tenant.back_up("others", includedResources=kinds)
    await tenant.back_up("excluded", includedResources=["clusterroles"])

    non_admin_backup = await tenant.until(
        NON_ADMIN_BACKUPS, "others", lambda obj: _phase_of_backup(obj) == "Completed"
    )
    name = non_admin_backup["status"]["veleroBackup"]["name"]
    with tarfile.open(folder / "backups" / name / f"{name}.tar.gz") as archive:
        members = [path for path in archive.getnames() if path.startswith("resources/")]
    assert f"resources/configmaps/namespaces/{tenant.namespace}/prices.json" in members
    scoped = [path for path in members if "/cluster/" in path and path.endswith(".json")]
    # Its own namespace belongs to whatever is in it; nothing else without a namespace does.
    assert {path.rsplit("/", 1)[1] for path in scoped} <= {f"{tenant.namespace}.json"}
    namespaced = [path for path in members if path.endswith(".json") and path not in scoped]
    assert all(f"/namespaces/{tenant.namespace}/" in path for path in namespaced)
    non_admin_backup = await tenant.until(
        NON_ADMIN_BACKUPS, "excluded", lambda obj: _phase_of_backup(obj) == "FailedValidation"
    )
    assert "clusterroles" in str(non_admin_backup["status"]["veleroBackup"]["status"]["validationErrors"])


def _phase_of_backup(non_admin_backup: JSONObject) -> str:
    made = (non_admin_backup.get("status") or {}).get("veleroBackup") or {}
    return str((made.get("status") or {}).get("phase"))

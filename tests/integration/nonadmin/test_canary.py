"""No text that a tenant can get names another namespace: no log, result, status, event, list or archive.

One namespace, whose name stands for all others, is named by as many objects as the server can see: cluster
role bindings of the tenant's own service account, volumes, webhooks. (docs/spec: NAC 17 A31)
"""

import gzip
import io
import json
import secrets
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster.stores.s3 import Bucket
from pinnace.api.nonadmin.hiding import HIDDEN
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SERVICE_ACCOUNTS,
    APIResource,
)
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from tests.integration.nonadmin.buckets import RBAC, OwnBucket, config_map
from tests.support.servers.self_service import Serve, Server, Tenant
from tests.support.servers.sites import running as running_server
from tests.support.waiting import eventually

ENDED = ("Completed", "PartiallyFailed", "Failed", "FailedValidation")


@pytest.fixture
async def canary(client: KubeClient, tenant: Tenant) -> AsyncIterator[str]:
    """A namespace, and what is known of it outside; its name is in no honest answer to the tenant."""
    name = f"canary-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await client.create(CONFIGMAPS, config_map(name, f"of-{name}"), name)
    subjects = [
        {"kind": "ServiceAccount", "name": "worker", "namespace": tenant.namespace},
        {"kind": "ServiceAccount", "name": "worker", "namespace": name},
    ]
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": f"binding-of-{name}"}, "roleRef": role, "subjects": subjects}
    kind = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding"}
    await client.create(CLUSTER_ROLE_BINDINGS, {**kind, **binding})
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-of-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": f"/data/{name}"},
            "claimRef": {"namespace": name, "name": "data"},
        },
    }
    await client.create(PERSISTENT_VOLUMES, volume)
    yield name
    await client.delete(CLUSTER_ROLE_BINDINGS, f"binding-of-{name}")
    await client.delete(PERSISTENT_VOLUMES, f"volume-of-{name}")
    await client.delete(NAMESPACES, name)


async def fill(tenant: Tenant) -> None:
    """The objects to back up: with an account that has rights in another namespace, and a claim."""
    await tenant.client.create(CONFIGMAPS, config_map(tenant.namespace), tenant.namespace)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}}
    await tenant.client.create(SERVICE_ACCOUNTS, account, tenant.namespace)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }
    await tenant.client.create(PERSISTENT_VOLUME_CLAIMS, claim, tenant.namespace)


async def everything(tenant: Tenant, bucket: Bucket) -> dict[str, str]:
    """All that a tenant can read: the own bucket's files, the requests, the events of the namespace."""
    found = {}
    for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS, EVENTS):
        found[resource.name] = json.dumps(await tenant.client.list_all(resource, tenant.namespace))
    config = {**bucket.location_config, "bucket": bucket.name}
    config["credentialsFile"] = str(bucket.server.credentials_file)
    store = S3Store(parse_s3_config(config), environ={})
    try:
        for key in await store.list_keys(""):
            async with store.get(key) as blocks:
                data = b"".join([block async for block in blocks])
            found[key] = readable(data)
    finally:
        await store.close()
    return found


def readable(data: bytes) -> str:
    """The text of a file; of an archive, of its members and their names."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = [(member.name, archive.extractfile(member)) for member in archive]
            return "\n".join(f"{name}\n{file.read().decode() if file else ''}" for name, file in members)
    except tarfile.TarError:
        return data.decode("utf-8", "replace")


async def ended(tenant: Tenant, resource: APIResource, name: str, member: str) -> JSONObject:
    def has_ended(obj: JSONObject) -> bool:
        status = ((obj.get("status") or {}).get(member) or {}).get("status") or {}
        return status.get("phase") in ENDED

    found = await tenant.until(resource, name, has_ended)
    return dict(found["status"][member]["status"])


async def converted_by(client: KubeClient, crd: str, namespace: str) -> None:
    """Let objects of that kind be converted by a webhook in a namespace, where nothing answers."""
    service = {"namespace": namespace, "name": "hook", "path": f"/namespaces/{namespace}/x"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    patch = {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
    await client.patch(CUSTOM_RESOURCE_DEFINITIONS, crd, patch)


@pytest.fixture
async def probes(client: KubeClient) -> AsyncIterator[APIResource]:
    """A kind in two versions. Other tests' backups must not meet its objects, so none outlives this."""
    word = f"probe{secrets.token_hex(3)}"
    group = f"{word}.example.com"
    probes = APIResource(group=group, version="v2", name=f"{word}s", kind=word.title(), namespaced=True)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    names = {"plural": f"{word}s", "singular": word, "kind": probes.kind}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{word}s.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    async def served() -> bool:
        try:
            await client.list_all(probes)
        except NotFound:
            return False
        return True

    await eventually(served)
    # A tenant's restore creates only what `edit` may create.
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": word, "labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
        "rules": [{"apiGroups": [group], "resources": [probes.name], "verbs": ["create"]}],
    }
    await client.create(CLUSTER_ROLES, role)

    async def granted() -> bool:
        edit = await client.get(CLUSTER_ROLES, "edit")
        return any(group in (rule.get("apiGroups") or ()) for rule in edit["rules"])

    await eventually(granted)
    yield probes
    await client.delete(CLUSTER_ROLES, word)
    patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await client.patch(CUSTOM_RESOURCE_DEFINITIONS, f"{word}s.{group}", patch)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{word}s.{group}")


def leaks(found: dict[str, str], canary: str) -> dict[str, list[str]]:
    """The lines that name it, by where they are."""
    lines = {key: [line for line in text.split("\n") if canary in line] for key, text in found.items()}
    return {key: named for key, named in lines.items() if named}


async def test_nothing_names_another_namespace(
    serve: Serve,
    server: Server,
    tenant: Tenant,
    bucket: Bucket,
    canary: str,
    probes: APIResource,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await serve(sync_period=Duration.seconds(1), velero_sync_period=Duration.seconds(0.5))
    own = OwnBucket(server, tenant, bucket)
    await own.create()
    await fill(tenant)
    for name in ("kept", "lost"):
        probe = {"apiVersion": f"{probes.group}/v2", "kind": probes.kind, "metadata": {"name": name}}
        await server.client.create(probes, probe, tenant.namespace)
    async with running_server(server.client, server.namespace, tmp_path, log_level="debug"):
        await tenant.until(
            NON_ADMIN_LOCATIONS, "mine", lambda obj: '"Available"' in json.dumps(obj.get("status"))
        )
        await tenant.back_up("whole", storageLocation="mine")
        whole = await ended(tenant, NON_ADMIN_BACKUPS, "whole", "veleroBackup")
        assert whole["phase"] == "Completed"
        await server.client.delete(probes, "lost", tenant.namespace)
        await tenant.client.delete(CONFIGMAPS, "prices", tenant.namespace)
        await converted_by(server.client, f"{probes.name}.{probes.group}", canary)

        await tenant.back_up("broken", storageLocation="mine")
        broken = await ended(tenant, NON_ADMIN_BACKUPS, "broken", "veleroBackup")
        await tenant.restore("back", backupName="whole")
        restored = await ended(tenant, NON_ADMIN_RESTORES, "back", "veleroRestore")
        await tenant.restore("never", backupName="no-such-backup")
        await tenant.refused(NON_ADMIN_RESTORES, "never")

        # The backup has the objects as they are stored, with a warning.
        assert (broken["phase"], restored["phase"]) == ("Completed", "PartiallyFailed")
        found = await everything(tenant, bucket)
        assert leaks(found, canary) == {}
        logs = [text for key, text in found.items() if key.endswith("-logs.gz")]
        results = [text for key, text in found.items() if key.endswith("-results.gz")]
        # What went wrong is in log and results of both but for the names; the administrator's has them whole.
        assert sum("conversion webhook" in text and HIDDEN in text for text in (*logs, *results)) == 4
        assert canary in capsys.readouterr().out

        patch = {"spec": {"deleteBackup": True}}
        await tenant.client.patch(NON_ADMIN_BACKUPS, "whole", patch, tenant.namespace)
        await tenant.gone(NON_ADMIN_BACKUPS, "whole")
        assert leaks(await everything(tenant, bucket), canary) == {}

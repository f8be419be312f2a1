"""Real backups of a real API server into a directory, compared with the cluster object by object."""

import gzip
import json
import secrets
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.meta import LabelSelector, ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.archive.reader import ArchiveIndex
from pinnace.backup.request import ServerDefaults, prepare_backup
from pinnace.backup.runner import execute_backup
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound, ServerFault
from pinnace.kube.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    APIResource,
)
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.protocols import BackupItemAction, ResourceIdentifier, ResourceSelector
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.support.runs.context import run_context
from tests.support.waiting import eventually


class Stored:
    """The files of a backup in its directory."""

    def __init__(self, root: Path, backup: Backup) -> None:
        self.directory = root / "backups" / backup.metadata.name
        self.backup = backup
        with tarfile.open(self.directory / f"{backup.metadata.name}.tar.gz") as tar:
            self.members = {
                member.name: tar.extractfile(member).read()  # type: ignore[union-attr]
                for member in tar.getmembers()
            }

    def item(self, resource: APIResource, name: str, namespace: str = "") -> JSONObject:
        scope = f"namespaces/{namespace}" if namespace else "cluster"
        plain = self.members[f"resources/{resource.group_resource}/{scope}/{name}.json"]
        versioned = (
            f"resources/{resource.group_resource}/{resource.version}-preferredversion/{scope}/{name}.json"
        )
        assert self.members[versioned] == plain
        loaded: JSONObject = json.loads(plain)
        return loaded

    def names(self, resource: APIResource, namespace: str = "") -> set[str]:
        scope = f"namespaces/{namespace}/" if namespace else "cluster/"
        prefix = f"resources/{resource.group_resource}/{scope}"
        return {
            name.removeprefix(prefix).removesuffix(".json")
            for name in self.members
            if name.startswith(prefix)
        }

    @property
    def log(self) -> str:
        return gzip.decompress(
            (self.directory / f"{self.backup.metadata.name}-logs.gz").read_bytes()
        ).decode()


async def back_up(
    client: KubeClient,
    tmp_path: Path,
    *,
    name: str = "b1",
    all_versions: bool = False,
    actions: Sequence[BackupItemAction] = (),
    **spec: Any,
) -> Stored:
    discovery = await Discovery.load(client, all_versions=all_versions)
    assert discovery.server_version is not None
    backup = prepare_backup(
        Backup(metadata=ObjectMeta(name=name, namespace="velero"), spec=BackupSpec(**spec)),
        defaults=ServerDefaults(),
        storage_locations=[BackupStorageLocation(metadata=ObjectMeta(name="default"))],
        snapshot_locations=[],
        server_version=discovery.server_version,
        now=SYSTEM_CLOCK.now(),
    )
    assert backup.status.validation_errors == []
    workdir = tmp_path / "work"
    workdir.mkdir(exist_ok=True)
    async with BackupStore(FilesystemStore(tmp_path / "store"), Layout(""), location="default") as store:
        done = await execute_backup(
            backup,
            run_context(store, client, discovery, workdir),
            actions=[*backup_actions(client, discovery), *actions],
        )
    assert list(workdir.iterdir()) == []
    return Stored(tmp_path / "store", done)


def config_map(name: str, **metadata: Any) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"text": "<ä&\u2028>"},
    }


async def fill(client: KubeClient, namespace: str) -> None:
    """A few objects that refer to each other: pod, claim, volume, account, maps, secret."""
    for number in range(7):
        await client.create(
            CONFIGMAPS, config_map(f"map-{number}", labels={"odd": str(number % 2)}), namespace
        )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "dmFsdWU="}}
    await client.create(SECRETS, secret, namespace)
    claim = {
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": f"pv-{namespace}",
            "storageClassName": "",
        },
    }
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
    volume = {
        "metadata": {"name": f"pv-{namespace}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/volume"},
            "claimRef": {"namespace": namespace, "name": "claim"},
        },
    }
    await client.create(PERSISTENT_VOLUMES, volume)
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "app"}}, namespace)
    pod = {
        "metadata": {"name": "pod"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}],
            "serviceAccountName": "app",
            "automountServiceAccountToken": False,
        },
    }
    await client.create(PODS, pod, namespace)

    async def is_bound() -> bool:
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS, "claim", namespace)
        return bool(claim["status"].get("phase") == "Bound")

    await eventually(is_bound)


async def objects_of(client: KubeClient, namespace: str) -> dict[APIResource, dict[str, JSONObject]]:
    """The objects of a namespace by resource and name."""
    resources = (PODS, PERSISTENT_VOLUME_CLAIMS, CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS)
    return {
        resource: {item["metadata"]["name"]: item for item in await client.list_all(resource, namespace)}
        for resource in resources
    }


async def test_namespace_is_stored_as_the_server_has_it(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await fill(client, namespace)
    before = await objects_of(client, namespace)
    stored = await back_up(client, tmp_path, included_namespaces=[namespace])
    status = stored.backup.status
    assert (status.phase, status.errors, status.warnings) == (BackupPhase.COMPLETED, 0, 0), stored.log
    after = await objects_of(client, namespace)
    for resource, items in before.items():
        # The cluster's controllers are at work too: what they add or change meanwhile may be either way.
        assert set(items) <= stored.names(resource, namespace) <= set(items) | set(after[resource])
        for name, item in items.items():
            if after[resource][name] == item:
                assert stored.item(resource, name, namespace) == item
    assert before[CONFIGMAPS].keys() >= {f"map-{number}" for number in range(7)}
    assert before[CONFIGMAPS] == {name: after[CONFIGMAPS][name] for name in before[CONFIGMAPS]}
    assert stored.item(NAMESPACES, namespace) == await client.get(NAMESPACES, namespace)
    volume = await client.get(PERSISTENT_VOLUMES, f"pv-{namespace}")
    assert stored.item(PERSISTENT_VOLUMES, f"pv-{namespace}") == volume
    assert stored.names(PERSISTENT_VOLUMES) == {f"pv-{namespace}"}
    order = [name.split("/")[1] for name in stored.members if name.count("/") > 3 or "cluster" in name]
    assert order.index("persistentvolumes") < order.index("persistentvolumeclaims") < order.index("pods")


async def test_resource_list_is_what_the_tarball_holds(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await fill(client, namespace)
    stored = await back_up(client, tmp_path)
    listed = json.loads(gzip.decompress((stored.directory / "b1-resource-list.json.gz").read_bytes()))
    held: dict[str, list[str]] = {}
    for name, data in stored.members.items():
        parts = name.split("/")
        if parts[0] == "resources" and parts[2] in ("namespaces", "cluster"):
            item = json.loads(data)
            metadata = item["metadata"]
            key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
            held.setdefault(f"{item['apiVersion']}/{item['kind']}", []).append(key)
    assert listed == {kind: sorted(keys) for kind, keys in held.items()}
    progress = stored.backup.status.progress
    assert progress is not None
    assert progress.total_items == progress.items_backed_up == sum(map(len, held.values()))


async def test_label_selector_and_explicit_resources(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await fill(client, namespace)
    stored = await back_up(
        client,
        tmp_path,
        included_namespaces=[f"{namespace[:-1]}?"],
        included_resources=["cm", "secret"],
        label_selector=LabelSelector(match_labels={"odd": "1"}),
        ordered_resources={"configmaps": f"{namespace}/map-5"},
    )
    assert stored.backup.status.phase == BackupPhase.COMPLETED, stored.log
    assert [name.split("/")[-1] for name in stored.members if "/v1-preferredversion/" in name] == [
        "map-5.json",
        "map-1.json",
        "map-3.json",
    ]


@pytest.mark.found("O17b")
async def test_a_pod_brings_its_classes(client: KubeClient, namespace: str, tmp_path: Path) -> None:
    """The PriorityClass as with Velero 1.18.0: another cluster refuses the pod without them."""
    discovery = await Discovery.load(client)
    priorities = discovery.for_kind("scheduling.k8s.io/v1", "PriorityClass")
    runtimes = discovery.for_kind("node.k8s.io/v1", "RuntimeClass")
    assert priorities is not None
    assert runtimes is not None
    await client.create(priorities, {"metadata": {"name": namespace}, "value": 5})
    await client.create(runtimes, {"metadata": {"name": namespace}, "handler": "kata"})
    classes = {"priorityClassName": namespace, "runtimeClassName": namespace}
    spec = {"containers": [{"name": "c", "image": "i"}], **classes}
    try:
        await client.create(PODS, {"metadata": {"name": "pod"}, "spec": spec}, namespace)
        stored = await back_up(client, tmp_path, included_namespaces=[namespace])
    finally:
        await client.delete(priorities, namespace)
        await client.delete(runtimes, namespace)

    assert stored.names(priorities) == {namespace}
    assert stored.names(runtimes) == {namespace}


async def test_own_reader_sees_the_whole_backup(client: KubeClient, namespace: str, tmp_path: Path) -> None:
    await fill(client, namespace)
    stored = await back_up(client, tmp_path, included_namespaces=[namespace])
    index = await ArchiveIndex.open(stored.directory / "b1.tar.gz", tmp_path, with_versions=True)
    with index:
        assert index.names("configmaps", namespace) == sorted(stored.names(CONFIGMAPS, namespace))
        assert index.namespace_manifest(namespace) is not None
        assert index.version_dirs("pods") == ["v1-preferredversion"]
        assert index.warnings == []


async def test_definitions_come_with_their_resources(
    client: KubeClient, namespace: str, velero_crds: None, tmp_path: Path
) -> None:
    from pinnace.kube.resources import velero

    schedule = {
        "apiVersion": "velero.io/v1",
        "kind": "Schedule",
        "metadata": {"name": "daily"},
        "spec": {"schedule": "@daily", "template": {}},
    }
    await client.create(velero("schedules"), schedule, namespace)
    stored = await back_up(client, tmp_path, included_namespaces=[namespace])
    assert stored.backup.status.phase == BackupPhase.COMPLETED, stored.log
    assert stored.names(velero("schedules"), namespace) == {"daily"}
    assert stored.names(CUSTOM_RESOURCE_DEFINITIONS) == {"schedules.velero.io"}


@pytest.mark.found("Z3")
async def test_a_thousand_selectors_cost_one_list_of_each_kind(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    for name, labels in (("in", {"k999": "v"}), ("out", {"k999": "w"}), ("bare", {})):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        await client.create(CONFIGMAPS, body, namespace)
    selectors = [LabelSelector(match_labels={f"k{number}": "v"}) for number in range(1000)]
    stored = await back_up(client, tmp_path, included_namespaces=[namespace], or_label_selectors=selectors)
    assert stored.names(CONFIGMAPS, namespace) == {"in"}
    assert stored.names(NAMESPACES) == {namespace}
    assert 5 < stored.log.count("Listing items") < 100


@asynccontextmanager
async def dead_webhook(
    client: KubeClient, namespace: str, *old: str, new: Sequence[str] = ()
) -> AsyncIterator[str]:
    """The name of a definition of versions v2 and v1, whose conversion webhook does not answer.

    Args:
        old: names of objects that are stored in v1.
        new: of objects that are stored in v2.
    """
    word = f"shape{secrets.token_hex(3)}"
    v1 = APIResource(
        group="lab.example.com", version="v1", name=f"{word}s", kind=word.capitalize(), namespaced=True
    )
    name = v1.group_resource
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": v1.group,
            "scope": "Namespaced",
            "names": {"plural": v1.name, "singular": word, "kind": v1.kind},
            "versions": _versions("v1"),
        },
    }

    async def is_made(shape: str) -> bool:
        body = {"apiVersion": v1.api_version, "kind": v1.kind, "metadata": {"name": shape}, "size": 3}
        try:
            await client.create(v1, body, namespace)
        except NotFound:
            return False
        return True

    async def is_stored_anew(shape: str) -> bool:
        """Whether the API server writes an object that is the same, as it stores another version now."""
        found = await client.get(v1, shape, namespace)
        replaced = await client.replace(v1, shape, found, namespace)
        return bool(replaced["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"])

    async def is_broken() -> bool:
        try:
            await client.list_all(replace(v1, version="v2"), namespace)
        except ServerFault:
            return True
        return False

    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    try:
        for shape in (*old, *new):
            await eventually(partial(is_made, shape))
        if new:
            await client.patch(CUSTOM_RESOURCE_DEFINITIONS, name, {"spec": {"versions": _versions("v2")}})
        for shape in new:
            await eventually(partial(is_stored_anew, shape))
        webhook = {
            "clientConfig": {"url": "https://127.0.0.1:1/convert"},
            "conversionReviewVersions": ["v1"],
        }
        conversion = {"strategy": "Webhook", "webhook": webhook}
        await client.patch(CUSTOM_RESOURCE_DEFINITIONS, name, {"spec": {"conversion": conversion}})
        await eventually(is_broken)
        yield name
    finally:
        fixed = {"strategy": "None", "webhook": None}  # a deletion lists the objects
        await client.patch(CUSTOM_RESOURCE_DEFINITIONS, name, {"spec": {"conversion": fixed}})
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)


def _versions(stored: str) -> list[JSONObject]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return [
        {"name": version, "served": True, "storage": version == stored, "schema": schema}
        for version in ("v2", "v1")
    ]


@pytest.mark.found("R11")
@pytest.mark.parametrize("all_versions", [False, True], ids=["preferred", "all-versions"])
async def test_a_kind_whose_conversion_webhook_is_gone_is_saved_as_it_is_stored(
    client: KubeClient, namespace: str, tmp_path: Path, all_versions: bool
) -> None:
    async with dead_webhook(client, namespace, "old") as name:
        stored = await back_up(client, tmp_path, included_namespaces=[namespace], all_versions=all_versions)
    saved = json.loads(stored.members[f"resources/{name}/namespaces/{namespace}/old.json"])
    assert (saved["apiVersion"], saved["size"]) == ("lab.example.com/v1", 3)
    assert f"resources/{name}/v1/namespaces/{namespace}/old.json" in stored.members
    assert stored.names(CUSTOM_RESOURCE_DEFINITIONS) == {name}
    assert stored.backup.status.phase == BackupPhase.COMPLETED
    assert stored.backup.status.warnings == 1
    assert "Listed in version v1, as version v2 cannot be listed" in stored.log


class Names:
    """An action that names one more object for each ConfigMap."""

    name = "example.com/names"

    def __init__(self, wanted: ResourceIdentifier) -> None:
        self._wanted = wanted

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=("configmaps",))

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        return item, [self._wanted]


@pytest.mark.found("R11")
async def test_an_object_that_an_action_names_is_saved_as_it_is_stored(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await client.create(CONFIGMAPS, config_map("chosen", labels={"app": "a"}), namespace)
    async with dead_webhook(client, namespace, "old") as name:
        resource, _, group = name.partition(".")
        action = Names(ResourceIdentifier(group=group, resource=resource, namespace=namespace, name="old"))
        chosen = LabelSelector(match_labels={"app": "a"})
        stored = await back_up(
            client, tmp_path, included_namespaces=[namespace], label_selector=chosen, actions=[action]
        )
    saved = json.loads(stored.members[f"resources/{name}/namespaces/{namespace}/old.json"])
    assert (saved["apiVersion"], saved["size"]) == ("lab.example.com/v1", 3)
    assert stored.names(CONFIGMAPS, namespace) == {"chosen"}
    assert stored.backup.status.errors == 0


@pytest.mark.found("R11")
async def test_objects_stored_in_two_versions_are_all_saved_without_their_conversion_webhook(
    client: KubeClient,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list works in the preferred version at first, and fails at its second page."""
    monkeypatch.setattr(KubeClient, "list_pages", partialmethod(KubeClient.list_pages, limit=2))
    new, old = ("a", "b", "d"), ("c", "e")
    async with dead_webhook(client, namespace, *old, new=new) as name:
        stored = await back_up(client, tmp_path, included_namespaces=[namespace])
    paths = [f"resources/{name}/namespaces/{namespace}/{shape}.json" for shape in "abcde"]
    versions = [json.loads(stored.members[path])["apiVersion"].partition("/")[2] for path in paths]
    assert versions == ["v2", "v2", "v1", "v2", "v1"]
    assert "Listed in versions v2 and v1, as version v2 alone cannot be listed" in stored.log
    assert stored.backup.status.phase == BackupPhase.COMPLETED
    assert stored.backup.status.warnings == 1

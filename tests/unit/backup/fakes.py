"""A cluster in memory for the engine, and short ways to run a backup of it and look at the result.

Pages are made of JSON and parsed by the real page reader, so that items look as a server sends them.
"""

import json
import tarfile
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup, BackupProgress, BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.collaborators import Collaborators
from pinnace.backup.engine import BackupEngine, EngineResult
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, status_error
from pinnace.kube.groups import APIGroup, GroupVersion
from pinnace.kube.lists.pages import Page
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    APIResource,
    velero,
)
from pinnace.plugins.protocols import BackupItemAction, ResourceIdentifier, ResourceSelector
from tests.support.clock import FrozenClock
from tests.support.cluster.scripted_api import Call, ScriptedAPI

EXTENSIONS_DEPLOYMENTS = APIResource(
    group="extensions", version="v1beta1", name="deployments", kind="Deployment", namespaced=True
)
NEW_EVENTS = APIResource(group="events.k8s.io", version="v1", name="events", kind="Event", namespaced=True)
DEFAULT_RESOURCES = (
    PODS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    CONFIGMAPS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    EVENTS,
    DEPLOYMENTS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    velero("volumesnapshotlocations"),
    velero("backups"),
)


def discovery_of(
    resources: Iterable[APIResource] = DEFAULT_RESOURCES, *, all_versions: bool = False
) -> Discovery:
    """A discovery that serves these; of several versions of a group, the first given is preferred."""
    groups: dict[str, dict[str, list[APIResource]]] = {}
    for resource in resources:
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return Discovery(
        [
            APIGroup(
                name=name,
                versions=tuple(
                    GroupVersion(version=version, resources=tuple(served))
                    for version, served in versions.items()
                ),
                preferred_version=next(iter(versions)),
            )
            for name, versions in groups.items()
        ],
        all_versions=all_versions,
    )


def thing(
    resource: APIResource,
    name: str,
    namespace: str = "",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleting: bool = False,
    **rest: Any,
) -> JSONObject:
    """An object as a GET returns it."""
    metadata: JSONObject = {"name": name, "uid": f"uid-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    if deleting:
        metadata["deletionTimestamp"] = "2021-08-11T21:00:00Z"
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}


class FakeCluster(ScriptedAPI[tuple[str, str, str]]):
    """A cluster to back up, in pages of two objects.

    Attributes:
        list_errors, get_errors, count_errors: requests that fail, by group-resource.
        counted: the lists that were counted, by group-resource and namespace.
        counted_ahead: those that were counted before they were read.
        cut_out: how many objects are missing from the next lists of a group-resource.
        fail_after_first_page, restart_after_first_page: lists that break off, or begin again.
        before_list: called with the group-resource before each list.
    """

    def __init__(self, *, page_size: int = 2) -> None:
        super().__init__()
        self.page_size = page_size
        self.list_errors: dict[str, KubeError] = {}
        self.get_errors: dict[str, KubeError] = {}
        self.count_errors: dict[str, KubeError] = {}
        self.counted: list[tuple[str, str]] = []
        self.counted_ahead: list[tuple[str, str]] = []
        self.cut_out: dict[str, list[int]] = {}
        self.fail_after_first_page: set[str] = set()
        self.restart_after_first_page: set[str] = set()
        self.before_list: Callable[[str], Any] | None = None

    def add(self, resource: APIResource, *names: str, **fields: Any) -> "FakeCluster":
        """Add objects named `namespace/name` or `name`."""
        for key in names:
            namespace, _, name = key.rpartition("/")
            self.put(resource, thing(resource, name, namespace, **fields))
        return self

    def put(self, resource: APIResource, *objects: JSONObject) -> "FakeCluster":
        for obj in objects:
            metadata = obj["metadata"]
            self.objects[self.key(resource, metadata.get("namespace") or "", metadata["name"])] = obj
        return self

    def check(self, verb: str, resource: APIResource, namespace: str, name: str) -> None:
        kind = resource.group_resource
        if verb == "list" and self.before_list is not None:
            self.before_list(kind)
        errors = {"list": self.list_errors, "get": self.get_errors}.get(verb, {})
        if kind in errors:
            raise errors[kind]

    def describe(self, verb: str, resource: APIResource, namespace: str, name: str) -> Call:
        return (verb, resource.group_resource, namespace, name)

    def chosen(
        self, resource: APIResource, namespace: str | None, label_selector: str
    ) -> Iterable[JSONObject]:
        found = list(super().chosen(resource, namespace, label_selector))
        cuts = self.cut_out.get(resource.group_resource)
        return found[cuts.pop(0) :] if cuts else found

    async def count(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str = ""
    ) -> int | None:
        if resource_version:
            assert resource_version == "1"
            self.counted.append((resource.group_resource, namespace or ""))
        else:
            self.counted_ahead.append((resource.group_resource, namespace or ""))
        if resource.group_resource in self.count_errors:
            raise self.count_errors[resource.group_resource]
        return sum(namespace in (None, item["metadata"].get("namespace")) for item in self.of(resource))

    async def list_pages(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        name = resource.group_resource
        number = 0
        async with aclosing(super().list_pages(resource, namespace, label_selector=label_selector)) as pages:
            async for page in pages:
                if number == 1 and name in self.fail_after_first_page:
                    raise status_error(500, {"message": "etcd is gone"})
                if number == 1 and name in self.restart_after_first_page:
                    break
                yield page
                number += 1
            else:
                return
        first = True
        async for page in super().list_pages(resource, namespace, label_selector=label_selector):
            yield replace(page, restarted=True) if first else page
            first = False


@dataclass
class FakeAction:
    """An action that notes what it sees and answers as it is told."""

    selector: ResourceSelector = field(default_factory=ResourceSelector)
    additional: Callable[[JSONObject], Sequence[ResourceIdentifier]] = lambda item: ()
    change: Callable[[JSONObject], JSONObject] = lambda item: item
    error: Exception | None = None
    selector_error: Exception | None = None
    name: str = "example.io/fake"
    seen: list[str] = field(default_factory=list)

    async def applies_to(self) -> ResourceSelector:
        if self.selector_error is not None:
            raise self.selector_error
        return self.selector

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        metadata = item["metadata"]
        self.seen.append("/".join(filter(None, (item["kind"], metadata.get("namespace"), metadata["name"]))))
        if self.error is not None:
            raise self.error
        return self.change(item), self.additional(item)


def related(resource: APIResource, key: str) -> ResourceIdentifier:
    namespace, _, name = key.rpartition("/")
    return ResourceIdentifier(group=resource.group, resource=resource.name, namespace=namespace, name=name)


def a_backup(**spec: Any) -> Backup:
    return Backup(
        metadata=ObjectMeta(name="b1", namespace="velero", uid="backup-uid"), spec=BackupSpec(**spec)
    )


@dataclass
class Outcome:
    """What a run of the engine left."""

    result: EngineResult
    members: dict[str, bytes]
    errors: int
    warnings: int
    log: str
    progress: list[BackupProgress]

    @property
    def names(self) -> list[str]:
        """The members of the tarball in order."""
        return list(self.members)

    @property
    def items(self) -> list[str]:
        """The legacy copies, shortened: `pods/ns/name`, `persistentvolumes/name`."""
        return [
            name.removeprefix("resources/")
            .removesuffix(".json")
            .replace("/namespaces/", "/")
            .replace("/cluster/", "/")
            for name in self.members
            if name.startswith("resources/") and name.split("/")[2] in ("namespaces", "cluster")
        ]

    def item(self, path: str) -> JSONObject:
        loaded: JSONObject = json.loads(self.members[path])
        return loaded


async def run_backup(
    tmp_path: Path,
    cluster: FakeCluster,
    backup: Backup | None = None,
    *,
    discovery: Discovery | None = None,
    actions: Sequence[BackupItemAction] = (),
    collaborators: Collaborators | None = None,
    clock: FrozenClock | None = None,
    log_level: str = "info",
) -> Outcome:
    """Back up the cluster and read everything back."""
    clock = clock or FrozenClock()
    path = tmp_path / "contents.tar.gz"
    path.unlink(missing_ok=True)
    engine = BackupEngine(
        cluster, discovery or discovery_of(), actions=actions, collaborators=collaborators, clock=clock
    )
    progress: list[BackupProgress] = []

    async def sink(total: int, done: int) -> None:
        progress.append(BackupProgress(total_items=total, items_backed_up=done))

    log_path = tmp_path / "log.gz"
    with RunLog(log_path, fields={"backup": "velero/b1"}, clock=clock, level=log_level) as log:
        async with ArchiveWriter(path, clock=clock) as writer:
            result = await engine.run(backup or a_backup(), writer, log, progress=sink)
    return Outcome(result, read_members(path), log.errors, log.warnings, read_log(log_path), progress)


def read_members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert len({member.name for member in members}) == len(members)
        return {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def read_log(path: Path) -> str:
    import gzip

    return gzip.decompress(path.read_bytes()).decode()

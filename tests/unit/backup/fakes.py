"""A cluster in memory for the engine, and short ways to run a backup of it and look at the result.

Pages are made of JSON and parsed by the real page reader, so that items look as a server sends them.
"""

import asyncio
import json
import tarfile
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pinnace.api.backup import Backup, BackupProgress, BackupSpec
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.collaborators import Collaborators
from pinnace.backup.engine import BackupEngine, EngineResult
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, status_error
from pinnace.kube.groups import APIGroup, GroupVersion
from pinnace.kube.pages import Page, parse_page
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


def not_found(resource: APIResource, name: str) -> KubeError:
    message = f'{resource.group_resource} "{name}" not found'
    return status_error(404, {"message": message, "reason": "NotFound"})


@dataclass
class FakeCluster:
    """Objects by group-resource, requests that fail by group-resource, and what was asked (`calls`)."""

    objects: dict[str, list[JSONObject]] = field(default_factory=dict)
    page_size: int = 2
    list_errors: dict[str, KubeError] = field(default_factory=dict)
    get_errors: dict[str, KubeError] = field(default_factory=dict)
    count_errors: dict[str, KubeError] = field(default_factory=dict)
    fail_after_first_page: set[str] = field(default_factory=set)
    restart_after_first_page: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    before_list: Callable[[str], Any] | None = None
    cut_out: dict[str, list[int]] = field(default_factory=dict)
    """How many objects are missing from the next lists of a group-resource."""

    def add(self, resource: APIResource, *names: str, **fields: Any) -> "FakeCluster":
        """Add objects named `namespace/name` or `name`."""
        for key in names:
            namespace, _, name = key.rpartition("/")
            self.put(resource, thing(resource, name, namespace, **fields))
        return self

    def put(self, resource: APIResource, *objects: JSONObject) -> "FakeCluster":
        self.objects.setdefault(resource.group_resource, []).extend(objects)
        return self

    async def list_pages(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        name = resource.group_resource
        self.calls.append(f"list {name} {namespace or '*'} {label_selector}".rstrip())
        if self.before_list is not None:
            self.before_list(name)
        if name in self.list_errors:
            raise self.list_errors[name]
        selector = Selector.parse(label_selector)
        found = [
            item
            for item in self.objects.get(name, [])
            if namespace in (None, item["metadata"].get("namespace"))
            and selector.matches(item["metadata"].get("labels"))
        ]
        if cuts := self.cut_out.get(name):
            found = found[cuts.pop(0) :]
        pages = [found[start : start + self.page_size] for start in range(0, len(found), self.page_size)] or [
            []
        ]
        for number, items in enumerate(pages):
            await asyncio.sleep(0)  # as for every page of a real server, others get their turn
            if number == 1 and name in self.fail_after_first_page:
                raise status_error(500, {"message": "etcd is gone"})
            if number == 1 and name in self.restart_after_first_page:
                for again, page in enumerate(pages):
                    yield self._page(resource, page, 0, restarted=again == 0)
                return
            yield self._page(resource, items, sum(map(len, pages[number + 1 :])))

    def _page(
        self, resource: APIResource, items: list[JSONObject], remaining: int, *, restarted: bool = False
    ) -> Page:
        bare = [
            {key: value for key, value in item.items() if key not in ("apiVersion", "kind")} for item in items
        ]
        document = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": "1", "remainingItemCount": remaining},
            "items": bare,
        }
        return parse_page(json.dumps(document).encode(), restarted=restarted)

    async def count(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str
    ) -> int | None:
        assert resource_version == "1"
        if resource.group_resource in self.count_errors:
            raise self.count_errors[resource.group_resource]
        found = self.objects.get(resource.group_resource, [])
        return sum(namespace in (None, item["metadata"].get("namespace")) for item in found)

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        group_resource = resource.group_resource
        self.calls.append(f"get {group_resource} {namespace or ''}/{name}")
        if group_resource in self.get_errors:
            raise self.get_errors[group_resource]
        for item in self.objects.get(group_resource, []):
            if item["metadata"]["name"] == name and item["metadata"].get("namespace") == namespace:
                copied: JSONObject = json.loads(json.dumps(item))
                return copied
        raise not_found(resource, name)


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

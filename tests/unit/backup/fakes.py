"""The scripted cluster for the engine, and short ways to run a backup of it and look at the result.

Pages are made of JSON and parsed by the real page reader, so that items look as a server sends them.
"""

import json
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup, BackupProgress, BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.backup.engine import BackupEngine, EngineResult
from pinnace.kube.discovery import Discovery
from pinnace.kube.groups import APIGroup, GroupVersion
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
from tests.support.clock import FakeClock
from tests.support.cluster.scripted_cluster import ScriptedCluster

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


def two_a_page() -> ScriptedCluster:
    """A cluster to back up, in pages of two objects."""
    return ScriptedCluster(page_size=2)


def counted(cluster: ScriptedCluster) -> list[tuple[str, str]]:
    """Group-resource and namespace of the lists that were counted at their version."""
    return [each.key[:2] for each in cluster.done("count") if each.options["resourceVersion"]]


def counted_ahead(cluster: ScriptedCluster) -> list[tuple[str, str]]:
    """Group-resource and namespace of the lists that were counted before they were read."""
    return [each.key[:2] for each in cluster.done("count") if not each.options["resourceVersion"]]


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
    cluster: ScriptedCluster,
    backup: Backup | None = None,
    *,
    discovery: Discovery | None = None,
    actions: Sequence[BackupItemAction] = (),
    collaborators: BackupCollaborators | None = None,
    clock: FakeClock | None = None,
    log_level: str = "info",
) -> Outcome:
    """Back up the cluster and read everything back."""
    clock = clock or FakeClock()
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

"""An application in a real cluster, backups and restores of it, and the comparison that ends every test.

A Completed backup counts only once `Lab.assert_whole` has restored it beside the application and found every
object the same, or once it holds the very bytes of a backup that passed this.
"""

import asyncio
import gzip
import io
import secrets
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.backup.request import ServerDefaults, prepare_backup
from pinnace.backup.runner import execute_backup
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.lists.pages import Page
from pinnace.kube.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    APIResource,
)
from pinnace.operations.local_restore import StoredBackups
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.protocols import BackupItemAction, RestoreItemAction
from pinnace.restore.request import RestoreRequest
from pinnace.restore.runner import RestoreInputs, execute_restore
from pinnace.restore.selection.validation import validate_and_complete
from pinnace.runs.context import StoreSource
from pinnace.runs.progress import ProgressSink
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.patience import Patience
from tests.support.runs.context import run_context
from tests.support.waiting import eventually

RUN_SECONDS = 180.0
"""A backup or restore of these few objects that takes longer hangs, whatever the faults."""

MAPS = 11
PAGE = 3
"""Small pages, so that a list of so few objects has continue tokens."""

WIDGETS = APIResource(group="faults.pinnace.io", version="v1", name="widgets", kind="Widget", namespaced=True)

COMPARED: Sequence[APIResource] = (
    CONFIGMAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    DEPLOYMENTS,
    WIDGETS,
)
SELECTED = [resource.group_resource for resource in COMPARED]


_READ_BY_PEOPLE = ("-logs.gz", "-results.gz", "-pinnace-index.json.gz")
_WHOLE: dict[str, Mapping[str, bytes]] = {}
"""By application: what the backup held that was restored and found whole."""
_GOOD: dict[str, Mapping[Path, bytes]] = {}
"""By application: the files of a location with a good backup."""


class SmallPages(KubeClient):
    """A client whose lists have several pages."""

    async def list_pages(
        self, resource: APIResource, *args: Any, **options: Any
    ) -> AsyncGenerator[Page, None]:
        async with aclosing(super().list_pages(resource, *args, **{**options, "limit": PAGE})) as pages:
            async for page in pages:
                yield page


# --- The application ------------------------------------------------------------------------------------


def _object(api_version: str, kind: str, name: str, **content: Any) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def config_map(number: int) -> JSONObject:
    return _object("v1", "ConfigMap", f"map-{number:02}", data={"number": str(number), "text": "ä\n\u2028"})


CONTAINER = {"name": "main", "image": "registry.invalid/never-run"}

APPLICATION: Sequence[tuple[APIResource, JSONObject]] = (
    *((CONFIGMAPS, config_map(number)) for number in range(MAPS)),
    (SECRETS, _object("v1", "Secret", "password", type="Opaque", data={"password": "c2VjcmV0"})),
    (SECRETS, _object("v1", "Secret", "token", type="Opaque", data={"token": "AAEC"})),
    (SERVICE_ACCOUNTS, _object("v1", "ServiceAccount", "runner")),
    (SERVICES, _object("v1", "Service", "web", spec={"ports": [{"port": 80, "targetPort": 8080}]})),
    (
        PERSISTENT_VOLUME_CLAIMS,
        _object(
            "v1",
            "PersistentVolumeClaim",
            "data",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        ),
    ),
    (
        PODS,
        _object(
            "v1",
            "Pod",
            "worker",
            spec={
                "automountServiceAccountToken": False,
                "containers": [CONTAINER],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        ),
    ),
    (
        DEPLOYMENTS,
        _object(
            "apps/v1",
            "Deployment",
            "web",
            spec={
                "replicas": 0,
                "paused": True,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}},
            },
        ),
    ),
    (WIDGETS, _object("faults.pinnace.io/v1", "Widget", "first", spec={"size": 1})),
    (WIDGETS, _object("faults.pinnace.io/v1", "Widget", "second", spec={"size": 2})),
)

WIDGET_DEFINITION = _object(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "widgets.faults.pinnace.io",
    spec={
        "group": WIDGETS.group,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}
                        },
                    }
                },
            }
        ],
    },
)


async def install_application(client: KubeClient) -> str:
    """Create the application in a fresh namespace; returns its name."""
    namespace = f"faults-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, _object("v1", "Namespace", namespace))
    await _ensure_widgets(client)
    await asyncio.gather(*(client.create(kind, item, namespace) for kind, item in APPLICATION))
    await _account_exists(client, namespace)
    return namespace


async def install_crowd(client: KubeClient, number: int) -> str:
    """Create so many ConfigMaps in a fresh namespace; returns its name."""
    namespace = f"crowd-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, _object("v1", "Namespace", namespace))
    await asyncio.gather(*(client.create(CONFIGMAPS, config_map(each), namespace) for each in range(number)))
    await _account_exists(client, namespace)
    return namespace


async def _ensure_widgets(client: KubeClient) -> None:
    try:
        await client.get(CUSTOM_RESOURCE_DEFINITIONS, WIDGET_DEFINITION["metadata"]["name"])
    except NotFound:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGET_DEFINITION)

    async def served() -> bool:
        try:
            await client.list_all(WIDGETS)
        except NotFound:
            return False
        return True

    await eventually(served)


async def _account_exists(client: KubeClient, namespace: str) -> None:
    """Wait for the objects that the cluster puts into every namespace, so that both sides have them."""

    async def there() -> bool:
        names = {item["metadata"]["name"] for item in await client.list_all(SERVICE_ACCOUNTS, namespace)}
        maps = {item["metadata"]["name"] for item in await client.list_all(CONFIGMAPS, namespace)}
        return "default" in names and "kube-root-ca.crt" in maps

    await eventually(there)


# --- Comparing ------------------------------------------------------------------------------------------


async def objects_in(client: KubeClient, namespace: str) -> dict[str, JSONObject]:
    """Everything of the compared kinds by `<resource>/<name>`, without what belongs to one cluster only."""
    lists = await asyncio.gather(*(client.list_all(resource, namespace) for resource in COMPARED))
    return {
        f"{resource.group_resource}/{item['metadata']['name']}": _essence(item)
        for resource, items in zip(COMPARED, lists, strict=True)
        for item in items
    }


def _essence(item: JSONObject) -> JSONObject:
    essence = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    labels = item["metadata"].get("labels") or {}
    essence["labels"] = {key: value for key, value in labels.items() if not key.startswith("velero.io/")}
    essence["annotations"] = item["metadata"].get("annotations") or {}
    if item["kind"] == "Service":
        essence["spec"] = {
            key: value for key, value in item["spec"].items() if key not in ("clusterIP", "clusterIPs")
        }
    return essence


# --- Backups and restores of it -------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Lab:
    """The application, a direct client to the cluster, and what runs backups and restores.

    Attributes:
        client: direct, without faults.
        namespace: of the application; never changed by tests.
        workdir: where temporary files are made; asserted to be empty after each run.
    """

    client: KubeClient
    namespace: str
    workdir: Path
    targets: list[str] = field(default_factory=list)

    def new_target(self) -> str:
        """A name for a namespace to restore into, deleted after the test."""
        self.targets.append(f"target-{secrets.token_hex(4)}")
        return self.targets[-1]

    async def back_up(
        self,
        store: BackupStore,
        *,
        client: KubeClient | None = None,
        name: str = "b1",
        actions: Sequence[BackupItemAction] = (),
        progress: ProgressSink | None = None,
        reopen_store: StoreSource | None = None,
        discovery: Discovery | None = None,
        patience: Patience | None = None,
        **spec: Any,
    ) -> Backup:
        """Back up the application through `client`; the discovery is always made directly."""
        backup = await self.prepared(name, **spec)
        discovery = discovery or await Discovery.load(self.client)
        through = client or self.client
        async with asyncio.timeout(RUN_SECONDS):
            done = await execute_backup(
                backup,
                run_context(
                    *(store, through, discovery, self.workdir),
                    progress=progress,
                    reopen_store=reopen_store,
                    patience=patience,
                ),
                actions=[*backup_actions(through, discovery), *actions],
            )
        assert self.left_over == []
        assert done.status.completion_timestamp is not None
        return done

    async def place_backup(self, store: BackupStore, root: Path) -> None:
        """Put a good backup b1 into a location in a folder: of the application, made once and then copied."""
        if self.namespace not in _GOOD:
            assert (await self.back_up(store)).status.phase == BackupPhase.COMPLETED
            _GOOD[self.namespace] = _read_tree(root)
        _write_tree(root, _GOOD[self.namespace])

    async def prepared(self, name: str, **spec: Any) -> Backup:
        version = await self.client.version()
        prepared = prepare_backup(
            Backup(
                metadata=ObjectMeta(name=name, namespace="velero"),
                spec=BackupSpec(
                    **{
                        "included_namespaces": [self.namespace],
                        "included_resources": SELECTED,
                        "include_cluster_resources": False,
                        **spec,
                    }
                ),
            ),
            defaults=ServerDefaults(),
            storage_locations=[BackupStorageLocation(metadata=ObjectMeta(name="default"))],
            snapshot_locations=[],
            server_version=version,
            now=SYSTEM_CLOCK.now(),
        )
        assert prepared.status.validation_errors == []
        return prepared

    async def restore(
        self,
        store: BackupStore,
        target: str,
        *,
        client: KubeClient | None = None,
        name: str = "r1",
        backup_name: str = "b1",
        progress: ProgressSink | None = None,
        reopen_store: StoreSource | None = None,
        source: str = "",
        **spec: Any,
    ) -> Restore:
        """Restore the application, or what came from namespace `source`, into another namespace."""
        wanted = Restore(
            metadata=ObjectMeta(name=name, namespace="velero"),
            spec=RestoreSpec(
                backup_name=backup_name, namespace_mapping={source or self.namespace: target}, **spec
            ),
        )
        completed = await validate_and_complete(wanted, StoredBackups(store))
        assert completed.errors == ()
        assert completed.backup is not None
        begun = completed.restore
        begun.status.phase, begun.status.start_timestamp = RestorePhase.IN_PROGRESS, SYSTEM_CLOCK.now()
        discovery = await Discovery.load(self.client)
        through = client or self.client

        async def actions(_saved: SavedPodVolumes) -> Sequence[RestoreItemAction]:
            return restore_actions(through, discovery, "velero")

        async def no_volumes(_infos: object) -> SavedPodVolumes:
            return SavedPodVolumes()

        async with asyncio.timeout(RUN_SECONDS):
            done = await execute_restore(
                RestoreRequest(restore=begun, backup=completed.backup),
                run_context(
                    store, through, discovery, self.workdir, progress=progress, reopen_store=reopen_store
                ),
                RestoreInputs(actions=actions, pod_volumes=no_volumes),
            )
        assert self.left_over == []
        assert done.status.completion_timestamp is not None
        return done

    @property
    def left_over(self) -> list[str]:
        """Temporary files that a run left."""
        return sorted(path.name for path in self.workdir.rglob("*"))

    async def assert_whole(self, store: BackupStore, backup_name: str = "b1") -> None:
        """Assert that the stored backup is Completed, and that its restore has every object unchanged.

        A restore costs the cluster a second of processor time. It is spared where a backup of the same
        application, with the same files byte for byte, has been restored and compared before.
        """
        stored = await store.read_backup(backup_name)
        assert (stored.status.phase, stored.status.errors) == (BackupPhase.COMPLETED, 0)
        content = await self._content(store, backup_name)
        if content == _WHOLE.get(self.namespace):
            return
        target = self.new_target()
        done = await self.restore(store, target, name=f"check-{target}", backup_name=backup_name)
        assert (done.status.phase, done.status.errors, done.status.warnings) == (RestorePhase.COMPLETED, 0, 0)
        await self.assert_same(target)
        _WHOLE[self.namespace] = content

    async def _content(self, store: BackupStore, backup_name: str) -> Mapping[str, bytes]:
        """What restores read: each file of the tarball, its end, and each side file."""
        content = {}
        for key in await store._store.list_keys(f"backups/{backup_name}/"):
            name = key.rpartition("/")[2]
            if name.endswith(".gz") and not name.endswith(_READ_BY_PEOPLE):
                async with store._store.get(key) as blocks:
                    content[name] = gzip.decompress(b"".join([block async for block in blocks]))
        tarball = content.pop(f"{backup_name}.tar.gz")
        content["end"] = tarball[-2 * tarfile.BLOCKSIZE :]
        with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                content[member.name] = file.read() if file else b""
        return content

    async def assert_same(self, target: str, *, missing: Sequence[str] = ()) -> None:
        """Assert that the namespace holds the application, except for `missing`: `<resource>/<name>`."""
        expected = await objects_in(self.client, self.namespace)
        assert set(missing) <= expected.keys()
        found = await objects_in(self.client, target)
        assert found == {key: item for key, item in expected.items() if key not in missing}

    async def assert_no_backup(self, store: BackupStore, backup_name: str = "b1") -> None:
        """Assert that the location has no finished backup: at most its log."""
        assert not await store.exists(backup_name)
        keys = await stored_keys(store)
        assert {key.rpartition("/")[2] for key in keys} <= {f"{backup_name}-logs.gz"}

    async def clean_up(self) -> None:
        """Begin the deletion of the namespaces that were restored into."""
        for target in self.targets:
            try:
                await self.client.delete(NAMESPACES, target)
            except NotFound:
                continue


def _read_tree(root: Path) -> Mapping[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _write_tree(root: Path, files: Mapping[Path, bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


async def stored_keys(store: BackupStore) -> list[str]:
    """Every key below `backups/`."""
    return await store._store.list_keys("backups/")


async def results_of(store: BackupStore, restore: str = "r1") -> Mapping[str, Any]:
    """The results file of a restore: `{"errors": ..., "warnings": ...}`."""
    return await store.read_restore_results(restore)


@asynccontextmanager
async def no_longer_than(seconds: float) -> AsyncIterator[None]:
    """Fail if the code in the context hangs."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise AssertionError(f"it hung for more than {seconds:.0f} s") from None

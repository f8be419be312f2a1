"""The controllers of one namespace, called by a test, with a provider of snapshots in folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinnace.api.codec import decode
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import ITEM_OPERATION_TIMEOUT
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.backup.request import ServerDefaults
from pinnace.controllers.backup import BackupWork
from pinnace.controllers.deletion.backup_deletion import BackupDeletionReconciler
from pinnace.controllers.item_operations import OperationSettings, OperationsReconciler, RestoreSteps
from pinnace.controllers.restore import RestoreWork
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.runs import BACKUP_RUNS, RESTORE_RUNS, RunReconciler
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.settling import Settler
from pinnace.controllers.sync.location import Caches, LocationMemory, LocationSync
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS, RESTORES, APIResource, velero
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.restore.request import RestoreSettings
from pinnace.runtime.controller import DONE
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.storage.backup_store import BackupStore
from tests.support.waiting import eventually

PLUGIN_MODULE = "tests.support.volumes.folder_snapshotter"


class Bench:
    """The controllers of one namespace, called by the test. Locations are in a folder."""

    def __init__(self, scope: Scope, folder: Path) -> None:
        self.scope = scope
        self.client = scope.client
        self.namespace = scope.namespace
        self.folder = folder
        self.locations = LocationStores(scope.client, scope.namespace, folder / "credentials")
        self._settler = Settler(scope, self.locations)

    async def create(self, plural: str, name: str, spec: Mapping[str, Any]) -> JSONObject:
        resource = velero(plural)
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        return await self.client.create(resource, body, self.namespace)

    async def status(self, resource: APIResource, name: str) -> JSONObject:
        found = await self.client.get(resource, name, self.namespace)
        return {"phase": "", **(found.get("status") or {})}

    async def back_up(self, name: str, **spec: Any) -> JSONObject:
        """Make a backup; its status."""
        await self.create("backups", name, spec)
        work = BackupWork(self.scope, self.locations, defaults=ServerDefaults())
        await RunReconciler(self.scope, BACKUP_RUNS, work, self._settler).reconcile(self._key(name))
        return await self.status(BACKUPS, name)

    async def restore(self, name: str, backup: str, **spec: Any) -> JSONObject:
        """Make a restore; its status."""
        await self.create("restores", name, {"backupName": backup, **spec})
        options = RestoreSettings(features=self.scope.features, terminating_timeout_seconds=30)
        work = RestoreWork(self.scope, self.locations, options=options)
        await RunReconciler(self.scope, RESTORE_RUNS, work, self._settler).reconcile(self._key(name))
        finishing = OperationsReconciler(
            self.scope,
            self.locations,
            RESTORE_RUNS,
            RestoreSteps(scope=self.scope, work=work, volumes_seconds=60.0),
            settings=OperationSettings(poll_seconds=1.0, timeout=ITEM_OPERATION_TIMEOUT),
            in_flight=set(),
        )

        async def has_ended() -> bool:
            return await finishing.reconcile(self._key(name)) == DONE

        await eventually(has_ended)
        return await self.status(RESTORES, name)

    async def delete(self, name: str, backup: str) -> list[str]:
        """Delete a backup; the errors of the request, none if it succeeded."""
        await self.create("deletebackuprequests", name, {"backupName": backup})
        informer = Informer(self.client, DELETE_BACKUP_REQUESTS, self.namespace)
        reconciler = BackupDeletionReconciler(self.scope, self.locations, informer, running=set())
        await reconciler.reconcile(self._key(name))
        try:
            errors: list[str] = (await self.status(DELETE_BACKUP_REQUESTS, name)).get("errors") or []
        except NotFound:
            return []
        return errors

    async def sync(self, *, tenant: str = "") -> None:
        """Sync the location once, as a server does after its start."""
        found = await self.client.get(velero("backupstoragelocations"), "default", self.namespace)
        location = decode(BackupStorageLocation, found)
        if tenant:
            location.metadata.annotations[Origin.LOCATION.namespace_annotation] = tenant
        resources = (BACKUPS, velero("schedules"))
        backups, schedules = (Informer(self.client, each, self.namespace) for each in resources)
        caches = Caches(backups=backups, schedules=schedules)
        async with await self.store() as store:
            await LocationSync(self.scope, caches, location, store, LocationMemory()).run()

    async def status_of_backup(self, name: str) -> JSONObject:
        return await self.status(BACKUPS, name)

    async def set_provider(self, location: str, provider: str) -> None:
        """Set another provider in a snapshot location."""
        patch = {"spec": {"provider": provider}}
        await self.client.patch(velero("volumesnapshotlocations"), location, patch, self.namespace)

    async def store(self) -> BackupStore:
        """The store of the only location; the caller closes it."""
        return await self.locations.acquire("default")

    async def results(self, name: str) -> str:
        """Warnings and errors of a restore; for messages of failed assertions too."""
        async with await self.store() as store:
            results = await store.read_restore_results(name)
        return str(results)

    def _key(self, name: str) -> Key:
        return Key(self.namespace, name)


async def make_bench(
    client: KubeClient, namespace: str, folder: Path, *, features: frozenset[str] = frozenset({FEATURE})
) -> Bench:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    scope = Scope(
        client=client,
        namespace=namespace,
        metrics=ServerMetrics(),
        workdir=work,
        features=features,
        plugins=await find_plugins(PluginOptions(modules=[PLUGIN_MODULE])),
    )
    bench = Bench(scope, folder)
    (folder / "bucket").mkdir(exist_ok=True)
    spec = {
        "provider": "pinnace.io/filesystem",
        "config": {"path": str(folder)},
        "objectStorage": {"bucket": "bucket"},
    }
    await bench.create("backupstoragelocations", "default", spec)
    return bench

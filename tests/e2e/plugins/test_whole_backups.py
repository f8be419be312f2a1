"""Whole backups, restores and deletions with every kind of plugin in another process, object by object."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from examples.compare import FieldRule, Key, ObjectRule, Rules, World, compare_worlds
from examples.documented import DOCUMENTED
from examples.world import take_snapshot
from hack.cluster.control_plane import ControlPlane
from pinnace.api.labels import FORCE_DELETION
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    SERVICES,
    APIResource,
    velero,
)
from tests.e2e.without_server.command import Pinnace
from tests.support.cluster.namespaces import delete_namespace
from tests.support.plugins.programs import put_own
from tests.support.plugins.servers import WHOLE_MODULE, PluginServer
from tests.support.waiting import eventually
from tests.support.whole_plugin.actions import (
    BACKED_UP,
    COMPANION,
    DELETED_FILE,
    FOLDER_VARIABLE,
    RESTORED,
    SKIPPED,
)
from tests.support.whole_plugin.store import NAME as PROVIDER

FINAL = frozenset({"FailedValidation", "Completed", "PartiallyFailed", "Failed", "Processed"})
IN_BACKUP = {"matchLabels": {"app": "shop"}}


class App:
    """Config maps, a Secret, a Service, and a volume that is a folder of this machine."""

    def __init__(self, client: KubeClient, folder: Path) -> None:
        self.client = client
        self.namespace = f"app-{secrets.token_hex(4)}"
        self.volume = f"pv-{self.namespace}"
        self.disk = folder / "disk"

    async def install(self) -> None:
        await self.client.create(NAMESPACES, self._object("Namespace", self.namespace, namespace=""))
        for name, notes in (
            ("plain", {}),
            ("leader", {COMPANION: "companion"}),
            ("passing", {SKIPPED: "true"}),
        ):
            await self._create(CONFIGMAPS, name, notes, data={"name": name})
        await self._create(CONFIGMAPS, "companion", labelled=False, data={"name": "companion"})
        await self._create(SECRETS, "password", stringData={"word": "xyzzy"})
        await self._create(SERVICES, "web", spec={"ports": [{"port": 80}], "selector": {"app": "shop"}})
        await self._add_volume()

    async def _add_volume(self) -> None:
        self.disk.mkdir()
        (self.disk / "notes.txt").write_text("as it was")
        modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        volume = {
            **modes,
            "capacity": {"storage": "1Mi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": self.namespace, "name": "data"},
            "hostPath": {"path": str(self.disk)},
        }
        body = self._object("PersistentVolume", self.volume, namespace="", spec=volume)
        await self.client.create(PERSISTENT_VOLUMES, body)
        claim = {**modes, "volumeName": self.volume, "resources": {"requests": {"storage": "1Mi"}}}
        await self._create(PERSISTENT_VOLUME_CLAIMS, "data", spec=claim)
        await eventually(self._is_bound)

    async def _create(
        self,
        resource: APIResource,
        name: str,
        notes: dict[str, str] | None = None,
        *,
        labelled: bool = True,
        **members: Any,
    ) -> None:
        body = self._object(resource.kind, name, notes=notes, labelled=labelled, **members)
        await self.client.create(resource, body, self.namespace)

    def _object(
        self,
        kind: str,
        name: str,
        *,
        namespace: str | None = None,
        notes: dict[str, str] | None = None,
        labelled: bool = True,
        **members: Any,
    ) -> JSONObject:
        metadata: JSONObject = {"name": name}
        if namespace is None:
            metadata["namespace"] = self.namespace
        if labelled:
            metadata["labels"] = {"app": "shop"}
        if notes:
            metadata["annotations"] = notes
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **members}

    async def _is_bound(self) -> bool:
        claim = await self.client.get(PERSISTENT_VOLUME_CLAIMS, "data", self.namespace)
        return bool((claim.get("status") or {}).get("phase") == "Bound")

    async def world(self) -> World:
        """All there is of it."""
        await eventually(self._is_bound)
        wanted = [Key("", "Namespace", "", self.namespace), Key("", "PersistentVolume", "", self.volume)]
        return await take_snapshot(self.client, [self.namespace], wanted)

    async def lose(self) -> None:
        """Delete everything, and spoil the data."""
        (self.disk / "notes.txt").write_text("overwritten")
        await delete_namespace(self.client, self.namespace)
        await self.client.delete(PERSISTENT_VOLUMES, self.volume)
        await self._gone(PERSISTENT_VOLUMES, self.volume)

    async def _gone(self, resource: APIResource, name: str) -> None:
        async def check() -> bool:
            try:
                await self.client.get(resource, name)
            except NotFound:
                return True
            return False

        await eventually(check)

    async def remove(self) -> None:
        for resource, name in ((NAMESPACES, self.namespace), (PERSISTENT_VOLUMES, self.volume)):
            try:
                await self.client.delete(resource, name)
            except NotFound:
                continue


@pytest.fixture
async def app(client: KubeClient, tmp_path: Path) -> AsyncIterator[App]:
    made = App(client, tmp_path)
    await made.install()
    yield made
    await made.remove()


def rules() -> Rules:
    """What the plugins change, beside what every restore does."""

    def noted(note: str) -> FieldRule:
        return FieldRule(
            name=note,
            reason="an action writes it down",
            kinds=frozenset({"ConfigMap"}),
            paths=[("metadata", "annotations", note)],
        )

    return Rules(
        fields=[
            *DOCUMENTED.fields,
            noted(BACKED_UP),
            noted(RESTORED),
            FieldRule(
                name="folder",
                reason="the snapshotter makes a volume of its own from a snapshot",
                kinds=frozenset({"PersistentVolume"}),
                paths=[("spec", "hostPath", "path")],
            ),
        ],
        missing=[
            *DOCUMENTED.missing,
            ObjectRule(
                name=SKIPPED,
                reason="an action leaves it out",
                applies=lambda item, _world: SKIPPED in (item["metadata"].get("annotations") or {}),
            ),
        ],
        new=DOCUMENTED.new,
    )


async def check_restored(app: App, before: World, *, backup: str, restore: str) -> None:
    """All is back, and each plugin left its trace."""
    after = await app.world()
    comparison = compare_worlds(before, {}, after, rules())
    assert [str(difference) for difference in comparison.unexplained] == []
    maps = {key.name: item for key, item in after.items() if key.kind == "ConfigMap"}
    assert set(maps) == {"plain", "leader", "companion", "kube-root-ca.crt"}
    for name in ("plain", "leader", "companion"):
        notes = maps[name]["metadata"]["annotations"]
        assert (notes[BACKED_UP], notes[RESTORED]) == (backup, restore)
    path = Path(after[Key("", "PersistentVolume", "", app.volume)]["spec"]["hostPath"]["path"])
    assert path != app.disk
    assert (path / "notes.txt").read_text() == "as it was"


async def add_location(client: KubeClient, namespace: str, kind: str, **spec: Any) -> None:
    resource = velero(f"{kind.lower()}s")
    body = {"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": "default"}}
    await client.create(resource, {**body, "spec": {"provider": PROVIDER, **spec}}, namespace)


async def create(
    client: KubeClient, namespace: str, kind: str, name: str, spec: JSONObject, **annotations: str
) -> None:
    resource = velero(f"{kind.lower()}s")
    metadata = {"name": name, "annotations": annotations}
    body = {"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    await client.create(resource, body, namespace)


async def ended(client: KubeClient, namespace: str, plural: str, name: str) -> JSONObject:
    """The status, once the phase is final."""
    status: JSONObject = {}

    async def check() -> bool:
        status.update((await client.get(velero(plural), name, namespace)).get("status") or {})
        return status.get("phase") in FINAL

    await eventually(check)
    return status


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


async def test_a_server_backs_up_restores_and_deletes_through_plugins(
    app: App,
    client: KubeClient,
    namespace: str,
    velero_crds: None,
    plugin_server: PluginServer,
    programs: Path,
    tmp_path: Path,
) -> None:
    put_own(programs, "whole", WHOLE_MODULE)
    (tmp_path / "objects" / "bucket").mkdir(parents=True)
    await add_location(
        client,
        namespace,
        "BackupStorageLocation",
        config={"root": str(tmp_path / "objects")},
        objectStorage={"bucket": "bucket", "prefix": "here"},
    )
    await add_location(
        client, namespace, "VolumeSnapshotLocation", config={"directory": str(tmp_path / "provider")}
    )
    server = await plugin_server()
    await server.ready()
    before = await app.world()
    spec = {"includedNamespaces": [app.namespace], "labelSelector": IN_BACKUP}

    await create(client, namespace, "Backup", "b1", spec)
    status = await ended(client, namespace, "backups", "b1")
    assert (status["phase"], status["volumeSnapshotsCompleted"]) == ("Completed", 1), server.log
    assert "velero-backup.json" in files(tmp_path / "objects")

    await app.lose()
    await create(client, namespace, "Restore", "r1", {"backupName": "b1"})
    assert (await ended(client, namespace, "restores", "r1"))["phase"] == "Completed", server.log
    await check_restored(app, before, backup="b1", restore="r1")

    wanted = {"backupName": "b1"}
    await create(client, namespace, "DeleteBackupRequest", "d1", wanted)
    refused = await ended(client, namespace, "deletebackuprequests", "d1")
    assert "error executing DeleteItemAction for" in str(refused["errors"])
    assert "velero-backup.json" in files(tmp_path / "objects")
    await create(client, namespace, "DeleteBackupRequest", "d2", wanted, **{FORCE_DELETION: "true"})

    async def deleted() -> bool:
        try:
            await client.get(velero("backups"), "b1", namespace)
        except NotFound:
            return True
        return False

    await eventually(deleted)
    seen = (tmp_path / DELETED_FILE).read_text().splitlines()
    names = ("companion", "leader", "passing", "plain")
    assert sorted(seen) == sorted(2 * [f"b1 {app.namespace}/{name}" for name in names])
    assert files(tmp_path / "objects") == []
    assert files(tmp_path / "provider" / "snapshots") == []
    assert await server.stop() == 0


async def test_commands_back_up_and_restore_through_plugins(
    app: App,
    client: KubeClient,
    namespace: str,
    velero_crds: None,
    control_plane: ControlPlane,
    programs: Path,
    tmp_path: Path,
) -> None:
    """Object stores are named by URLs here, and delete actions are a server's."""
    put_own(programs, "whole", WHOLE_MODULE)
    await add_location(
        client, namespace, "VolumeSnapshotLocation", config={"directory": str(tmp_path / "provider")}
    )
    folder = tmp_path / "command"
    folder.mkdir()
    pinnace = Pinnace(
        folder,
        kubeconfig=control_plane.kubeconfig,
        location=str(tmp_path / "location"),
        environ={"PINNACE_PLUGIN_DIR": str(programs), FOLDER_VARIABLE: str(tmp_path)},
    )
    before = await app.world()

    made = await pinnace(
        *("-n", namespace, "backup", "create", "b1", "--include-namespaces", app.namespace),
        *("--selector", "app=shop", "--snapshot-volumes"),
    )
    assert made.code == 0, made.out + made.err
    await app.lose()
    restored = await pinnace("-n", namespace, "restore", "create", "r1", "--from-backup", "b1")

    assert restored.code == 0, restored.out + restored.err
    await check_restored(app, before, backup="b1", restore="r1")

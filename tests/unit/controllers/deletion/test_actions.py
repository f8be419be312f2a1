"""Delete item actions: which items they see, and what becomes of the deletion when something fails."""

import asyncio
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from pinnace.age.recipients import parse_recipients
from pinnace.api.codec import decode
from pinnace.api.labels import FORCE_DELETION
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.archive.writer import ArchiveWriter
from pinnace.catalogue.reading import plain_list_of
from pinnace.controllers.deletion.backup_deletion import BackupDeletionReconciler
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import DELETE_BACKUP_REQUESTS
from pinnace.plugins.errors import PluginCallError, PluginError
from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.installed import InstalledPlugins
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.protocols import ResourceSelector
from pinnace.runtime.informer import Informer
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.errors import StoreUnavailable
from tests.support.clock import FakeClock
from tests.unit.backup.fakes import discovery_of
from tests.unit.controllers.fakes import NAMESPACE, World, key

COMPLETED = {"phase": "Completed", "startTimestamp": "2021-08-11T21:40:00Z"}
ITEMS = {
    "resources/pods/namespaces/shop/web.json": {"app": "web"},
    "resources/pods/namespaces/shop/db.json": {},
    "resources/pods/namespaces/other/web.json": {"app": "web"},
    "resources/persistentvolumes/cluster/disk.json": {},
    "resources/widgets.gone.example.com/namespaces/shop/w1.json": {},
    "resources/pods/v1-preferredversion/namespaces/shop/web.json": {"app": "web"},
}
ALL = ["disk", "other/web", "shop/db", "shop/w1", "shop/web"]


class Noting:
    """Notes what it sees."""

    def __init__(self, name: str, wanted: ResourceSelector, seen: list[tuple[str, str]]) -> None:
        self.name = name
        self.problem: dict[str, Exception] = {}
        self._wanted = wanted
        self._seen = seen

    async def applies_to(self) -> ResourceSelector:
        if "" in self.problem:
            raise self.problem[""]
        return self._wanted

    async def execute(self, item: JSONObject, backup: Backup) -> None:
        assert backup.metadata.name == "b1"
        metadata = item["metadata"]
        path = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        self._seen.append((self.name, path))
        if path in self.problem:
            raise self.problem[path]


class Scene:
    """A Completed backup in a folder, a request to delete it, and a server with some actions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[tuple[str, str]] = []
        self.actions: list[Noting] = []
        self.downloads = 0
        world.add_location()
        world.cluster.add("backups", "b1", spec={"storageLocation": "default"}, status=COMPLETED)
        world.cluster.add(DELETE_BACKUP_REQUESTS.name, "q1", spec={"backupName": "b1"})

    def add(self, name: str = "example.io/one", **wanted: Any) -> Noting:
        action = Noting(name, ResourceSelector(**wanted), self.seen)
        self.actions.append(action)
        return action

    async def store(
        self, items: Mapping[str, Mapping[str, str]] = ITEMS, *, damage: str = "", recipients: str = ""
    ) -> None:
        path = self.world.folder / "contents.tar.gz"
        async with ArchiveWriter(path, clock=FakeClock()) as writer:
            for name, marks in items.items():
                writer.add(name, b"no JSON" if name == damage else orjson.dumps(object_at(name, marks)))
            await writer.close()
        backup = decode(Backup, self.world.cluster.stored("backups", "b1"))
        files = BackupFiles(name="b1", metadata=encode_metadata(backup), contents=path)
        async with self.world.locations.open("default") as store:
            if recipients:
                store.encrypted(Encryption(recipients=parse_recipients(recipients)))
                files = msgspec.structs.replace(
                    files, plain_list=await plain_list_of(files, self.world.folder)
                )
            await store.put_backup(files)

    async def delete(self) -> None:
        python = {
            PluginId(PluginKind.DELETE_ITEM_ACTION, action.name): lambda action=action: action
            for action in self.actions
        }
        plugins = InstalledPlugins(python, (), LaunchOptions(environ={}))
        scope = dataclasses.replace(self.world.scope, plugins=plugins)
        informer = Informer(self.world.cluster.client, DELETE_BACKUP_REQUESTS, NAMESPACE)
        reconciler = BackupDeletionReconciler(scope, self.world.locations, informer, running=set())
        await reconciler.reconcile(key("q1"))

    @property
    def paths(self) -> list[str]:
        return sorted(path for _, path in self.seen)

    @property
    def request(self) -> JSONObject:
        return self.world.cluster.status(DELETE_BACKUP_REQUESTS.name, "q1")

    @property
    def is_deleted(self) -> bool:
        return self.world.cluster.peek("backups", "b1") is None and self.world.files() == []

    @property
    def is_untouched(self) -> bool:
        return self.world.cluster.status("backups", "b1") == COMPLETED and len(self.world.files()) > 1


def object_at(path: str, marks: Mapping[str, str]) -> JSONObject:
    parts = path.removesuffix(".json").split("/")
    metadata: JSONObject = {"name": parts[-1], "labels": dict(marks)}
    if "namespaces" in parts:
        metadata["namespace"] = parts[-2]
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}


@pytest.fixture
def scene(world: World, monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene(world)

    async def load(_client: object, *, all_versions: bool = False) -> Discovery:
        return discovery_of(all_versions=all_versions)

    download = BackupStore.download_contents

    async def counted(store: BackupStore, backup: str, path: Path) -> int:
        made.downloads += 1
        return await download(store, backup, path)

    monkeypatch.setattr(Discovery, "load", load)
    monkeypatch.setattr(BackupStore, "download_contents", counted)
    return made


@pytest.mark.spec("CTL-034")
@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ({}, ALL),
        ({"included_resources": ["pods"]}, ["other/web", "shop/db", "shop/web"]),
        ({"included_resources": ["po"]}, ["other/web", "shop/db", "shop/web"]),
        ({"excluded_resources": ["po", "widgets.gone.example.com"]}, ["disk"]),
        ({"included_namespaces": ["shop"]}, ["shop/db", "shop/w1", "shop/web"]),
        ({"excluded_namespaces": ["shop"]}, ["other/web"]),
        ({"label_selector": "app=web"}, ["other/web", "shop/web"]),
        ({"included_resources": ["persistentvolumes"]}, ["disk"]),
        ({"included_resources": ["widgets.gone.example.com"]}, ["shop/w1"]),
        ({"included_resources": ["nothing.of.the.sort"]}, []),
    ],
    ids=[
        *("everything", "resource", "short name", "excluded", "namespace", "not a namespace", "label"),
        *("cluster-scoped", "kind that is gone", "nothing"),
    ],
)
async def test_an_action_sees_what_it_wants(scene: Scene, wanted: dict[str, Any], seen: list[str]) -> None:
    await scene.store()
    scene.add(**wanted)

    await scene.delete()

    assert scene.paths == seen
    assert scene.is_deleted


@pytest.mark.spec("CTL-033")
async def test_without_actions_the_contents_are_not_fetched(scene: Scene) -> None:
    await scene.store()

    await scene.delete()

    assert scene.downloads == 0
    assert scene.is_deleted


@pytest.mark.spec("AFT-168")
@pytest.mark.parametrize("forced", [False, True])
async def test_an_action_that_raises_stops_no_other_and_keeps_the_files(scene: Scene, forced: bool) -> None:
    await scene.store()
    if forced:
        request = scene.world.cluster.stored(DELETE_BACKUP_REQUESTS, "q1")
        request["metadata"]["annotations"] = {FORCE_DELETION: "true"}
    broken = scene.add("example.io/a", included_resources=["pods"])
    broken.problem["shop/db"] = PluginError("it is locked")
    broken.problem["other/web"] = LookupError("a defect")
    scene.add("example.io/b", included_resources=["pods"])

    await scene.delete()

    # By item, and for each in the order of the actions.
    paths = ["other/web", "shop/db", "shop/web"]
    assert scene.seen == [(f"example.io/{name}", path) for path in paths for name in "ab"]
    if forced:
        assert scene.is_deleted
        return
    assert len(scene.world.files()) > 1
    first, second = scene.request["errors"]
    wanted = "error invoking delete item actions: error executing DeleteItemAction for pods"
    assert first.startswith(f"{wanted} other/web: ")
    assert second.startswith(f"{wanted} shop/db: ")


async def test_actions_run_once_the_backup_is_marked_and_before_its_files_are_deleted(scene: Scene) -> None:
    await scene.store()
    action = scene.add(included_resources=["persistentvolumes"])
    at_work: list[object] = []
    execute = action.execute

    async def look(item: JSONObject, backup: Backup) -> None:
        at_work.append(scene.world.cluster.status("backups", "b1")["phase"])
        at_work.append(scene.request["phase"])
        at_work.append(len(scene.world.files()) > 1)
        await execute(item, backup)

    action.execute = look  # type: ignore[method-assign]
    await scene.delete()

    assert at_work == ["Deleting", "InProgress", True]
    assert scene.is_deleted


@pytest.mark.spec("BEY-069", "AFT-167")
async def test_a_backup_without_contents_goes_all_the_same(scene: Scene) -> None:
    await scene.store()
    (scene.world.folder / "bucket-default/backups/b1/b1.tar.gz").unlink()
    scene.add()

    await scene.delete()

    assert scene.seen == []
    assert scene.is_deleted


@pytest.mark.spec("BEY-069", "AFT-167")
async def test_contents_out_of_reach_are_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.store()
    scene.add()

    async def unreachable(_store: object, _name: str, _path: Path) -> int:
        raise StoreUnavailable("no route to host")

    with monkeypatch.context() as broken:
        broken.setattr(BackupStore, "download_contents", unreachable)
        with pytest.raises(StoreUnavailable):
            await scene.delete()
    assert scene.request == {"errors": ["no route to host"]}
    assert scene.is_untouched

    await scene.delete()
    assert scene.paths == ALL
    assert scene.is_deleted


async def test_damaged_contents_keep_the_backup(scene: Scene) -> None:
    await scene.store()
    scene.add()
    path = scene.world.folder / "bucket-default/backups/b1/b1.tar.gz"
    path.write_bytes(path.read_bytes()[:-20])

    await scene.delete()

    (error,) = scene.request["errors"]
    assert error.startswith("the backup's contents, which delete item actions need, cannot be read: ")
    assert scene.request["phase"] == "Processed"
    assert scene.seen == []
    assert scene.is_untouched


@pytest.mark.parametrize("forced", [False, True])
async def test_contents_that_this_server_cannot_decrypt_keep_the_backup(
    scene: Scene, forced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.store(recipients="age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj")
    scene.add()
    if forced:
        request = scene.world.cluster.stored(DELETE_BACKUP_REQUESTS, "q1")
        request["metadata"]["annotations"] = {FORCE_DELETION: "true"}

    await scene.delete()

    assert scene.seen == []
    if forced:
        assert scene.is_deleted
        assert [said for said in caplog.messages if "Delete item actions are not run" in said]
        return
    (error,) = scene.request["errors"]
    assert error.startswith("delete item actions of plugins need the backup's contents: object ")
    assert "'b1' is encrypted, and no identity was given" in error
    assert "`backup delete --force`" in error
    assert scene.request["phase"] == "Processed"
    assert scene.is_untouched


async def test_an_item_that_cannot_be_read_keeps_the_files(scene: Scene) -> None:
    damaged = "resources/pods/namespaces/shop/db.json"
    await scene.store(damage=damaged)
    scene.add()

    await scene.delete()

    assert scene.paths == [path for path in ALL if path != "shop/db"]
    (error,) = scene.request["errors"]
    assert error.startswith("error reading pods shop/db of the backup for delete item actions: ")
    assert scene.world.cluster.status("backups", "b1")["phase"] == "Deleting"
    assert "backups/b1/b1.tar.gz" in scene.world.files()


@pytest.mark.parametrize(
    ("wanted", "problem", "text"),
    [
        ({}, PluginError("no license"), "plugin example.io/one: no license"),
        ({"label_selector": "a=b=c"}, None, "plugin example.io/one: its label selector is not valid: "),
    ],
    ids=["silent", "selector"],
)
async def test_an_action_that_does_not_say_what_it_wants_stops_the_deletion(
    scene: Scene, wanted: dict[str, Any], problem: Exception | None, text: str
) -> None:
    await scene.store()
    action = scene.add(**wanted)
    if problem is not None:
        action.problem[""] = problem

    with pytest.raises(PluginCallError):
        await scene.delete()

    (error,) = scene.request["errors"]
    assert error.startswith(text)
    assert scene.is_untouched


async def test_items_of_a_tenants_bucket_are_given_to_no_action(scene: Scene) -> None:
    """Whoever owns the bucket may have written it, and plugins act with the server's rights."""
    await scene.store()
    scene.add()
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    location["metadata"]["annotations"] = {"openshift.io/oadp-nabsl-origin-namespace": "tenant"}

    await scene.delete()

    assert scene.downloads == 0
    assert scene.seen == []
    assert scene.is_deleted


async def test_a_backup_whose_files_are_anothers_gives_actions_nothing(scene: Scene) -> None:
    await scene.store()
    scene.add()
    status = {"phase": "Failed", "startTimestamp": "2021-08-11T21:42:00Z"}
    scene.world.cluster.stored("backups", "b1")["status"] = status

    await scene.delete()

    assert scene.seen == []
    assert scene.downloads == 0
    assert scene.world.cluster.peek("backups", "b1") is None


async def test_nothing_is_left_on_the_disk_when_it_is_interrupted(scene: Scene) -> None:
    await scene.store()
    action = scene.add()
    begun = asyncio.Event()

    async def hang(_item: JSONObject, _backup: Backup) -> None:
        begun.set()
        await asyncio.Event().wait()

    action.execute = hang  # type: ignore[method-assign, assignment]
    before = sorted(path.name for path in scene.world.folder.iterdir())
    task = asyncio.create_task(scene.delete())
    await begun.wait()
    assert sorted(path.name for path in scene.world.folder.iterdir()) != before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert sorted(path.name for path in scene.world.folder.iterdir()) == before


@pytest.mark.found("P15")
async def test_a_kind_that_neither_the_cluster_nor_the_backup_has_is_said(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.store()
    scene.add(included_resources=["nosuchthing", "widgets.gone.example.com", "pods"])

    await scene.delete()

    said = [text for text in caplog.messages if "is called for no" in text]
    assert len(said) == 1
    assert "Plugin example.io/one is called for no nosuchthing" in said[0]


async def test_many_errors_of_actions_fit_into_the_status_of_one_object(scene: Scene) -> None:
    items: dict[str, dict[str, str]] = {
        f"resources/pods/namespaces/shop/p{number}.json": {} for number in range(60)
    }
    await scene.store(items)
    action = scene.add(included_resources=["pods"])
    action.problem |= {f"shop/p{number}": PluginError("no") for number in range(60)}

    await scene.delete()

    assert len(scene.request["errors"]) == 51
    assert scene.request["errors"][-1] == "10 more errors, in the log of the server"

"""The behaviour of every plugin, whatever the way to reach it: one suite, three ways.

A plugin in this process, our host with our own program, our host with a program that Velero's framework was
compiled into. The fourth, our program under Velero's host, is in test_velero_host.py.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.asynchronous import BackupItemActionV2
from pinnace.plugins.calling import Deadlines
from pinnace.plugins.errors import PluginCallError, PluginError, PluginGone, PluginNotFound
from pinnace.plugins.installed import InstalledPlugins
from pinnace.plugins.kinds import PluginKind
from pinnace.plugins.protocols import (
    BackupItemAction,
    ObjectStorePlugin,
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    VolumeInfo,
    VolumeSnapshotter,
)
from pinnace.plugins.session import PluginSession
from tests.support.plugins.programs import RecordingLog, pod
from tests.support.waiting import eventually

SELECTOR = ResourceSelector(
    included_namespaces=("shop",),
    excluded_namespaces=("kube-system",),
    included_resources=("pods",),
    excluded_resources=("nodes",),
    label_selector="app=web",
)
ADDITIONAL = ResourceIdentifier(group="group", resource="pods", namespace="myns", name="mypod")
BACKUP = Backup(metadata=ObjectMeta(name="b1", namespace="velero"))


async def blocks(*parts: bytes) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part


async def content(store: ObjectStorePlugin, key: str) -> bytes:
    return b"".join([block async for block in store.get_object("b", key)])


def plain(selector: ResourceSelector) -> ResourceSelector:
    """With tuples in place of lists, to compare."""
    return ResourceSelector(
        included_namespaces=tuple(selector.included_namespaces),
        excluded_namespaces=tuple(selector.excluded_namespaces),
        included_resources=tuple(selector.included_resources),
        excluded_resources=tuple(selector.excluded_resources),
        label_selector=selector.label_selector,
    )


def test_lists_plugins_by_kind_and_name(installed: InstalledPlugins) -> None:
    assert [str(plugin) for plugin in installed.ids] == [
        "BackupItemAction example.io/backup",
        "VolumeSnapshotter example.io/snapshots",
        "ObjectStore example.io/memory",
        "RestoreItemAction example.io/restore",
        "DeleteItemAction example.io/delete",
    ]


class TestBackupItemAction:
    @pytest.fixture
    def action(self, operation: PluginSession) -> BackupItemAction:
        (found,) = operation.backup_actions
        assert not isinstance(found, BackupItemActionV2)
        return found

    async def test_says_what_it_applies_to(self, action: BackupItemAction) -> None:
        assert action.name == "example.io/backup"
        assert plain(await action.applies_to()) == SELECTOR

    @pytest.mark.spec("PLG-016")
    async def test_changes_an_item_and_names_others(self, action: BackupItemAction) -> None:
        changed, additional = await action.execute(pod("change", app="web"), BACKUP)

        assert changed == pod("change", app="web", backup="b1")
        assert list(additional) == [ADDITIONAL]

    @pytest.mark.spec("PLG-016")
    async def test_an_item_comes_back_when_nothing_is_returned(self, action: BackupItemAction) -> None:
        assert await action.execute(pod("nothing"), BACKUP) == (pod("nothing"), [])

    @pytest.mark.spec("PLG-016")
    async def test_an_error_names_the_plugin_and_spares_the_next_item(self, action: BackupItemAction) -> None:
        with pytest.raises(PluginCallError, match=r"plugin example\.io/backup: .*it broke$"):
            await action.execute(pod("fail"), BACKUP)

        assert await action.execute(pod(), BACKUP) == (pod(), [])

    @pytest.mark.spec("PLG-018")
    async def test_a_panic_is_an_error_of_one_item(self, action: BackupItemAction) -> None:
        with pytest.raises(PluginCallError, match="at the disco"):
            await action.execute(pod("panic"), BACKUP)

        assert await action.execute(pod(), BACKUP) == (pod(), [])

    async def test_many_items_at_once(self, action: BackupItemAction) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(action.execute(pod("change", number=str(number)), BACKUP))
                for number in range(200)
            ]

        for number, task in enumerate(tasks):
            item, _ = task.result()
            assert item["metadata"]["labels"] == {"number": str(number), "backup": "b1"}

    async def test_every_item_is_seen_with_its_own_backup(self, action: BackupItemAction) -> None:
        for name in ("b1", "b2", "b1"):
            backup = Backup(metadata=ObjectMeta(name=name, namespace="velero"))
            item, _ = await action.execute(pod("change"), backup)
            assert item["metadata"]["labels"]["backup"] == name

    async def test_what_it_logs_is_in_the_log(self, action: BackupItemAction, log: RecordingLog) -> None:
        await action.execute(pod("log"), BACKUP)

        async def has_arrived() -> bool:
            return "an error" in log.messages("error")

        await eventually(has_arrived)
        warning = next(line for line in log.lines if line.message == "a warning")
        assert warning.level == "warning"
        assert warning.fields["count"] == 2
        assert warning.fields["logSource"]


class TestRestoreItemAction:
    async def test_changes_an_item_with_what_it_was(self, operation: PluginSession) -> None:
        (action,) = operation.restore_actions
        assert plain(await action.applies_to()) == SELECTOR

        output = await action.execute(self._given("change"))

        assert output.item == pod("change", restore="r1-web")
        assert list(output.additional_items) == [ADDITIONAL]
        assert not output.skip

    async def test_skips_an_item(self, operation: PluginSession) -> None:
        (action,) = operation.restore_actions

        output = await action.execute(self._given("skip"))

        assert output.skip
        assert output.item == pod("skip")

    async def test_fails_an_item(self, operation: PluginSession) -> None:
        (action,) = operation.restore_actions

        with pytest.raises(PluginCallError, match="it broke"):
            await action.execute(self._given("fail"))

    @staticmethod
    def _given(wish: str) -> RestoreItemInput:
        restore = Restore(metadata=ObjectMeta(name="r1", namespace="velero"))
        return RestoreItemInput(item=pod(wish), item_from_backup=pod(wish), restore=restore)


class TestDeleteItemAction:
    async def test_acts_on_an_item(self, operation: PluginSession) -> None:
        (action,) = operation.delete_actions
        assert plain(await action.applies_to()) == SELECTOR

        await action.execute(pod(), BACKUP)
        with pytest.raises(PluginCallError, match="it broke"):
            await action.execute(pod("fail"), BACKUP)


class TestObjectStore:
    @pytest.fixture
    async def store(self, operation: PluginSession) -> ObjectStorePlugin:
        store = operation.object_store("example.io/memory")
        await store.init({"bucket": "b", "prefix": "", "marker": "m1"})
        return store

    @pytest.mark.spec("PLG-010")
    async def test_gives_back_what_was_put(self, store: ObjectStorePlugin) -> None:
        parts = [bytes([number]) * 16384 for number in range(5)]
        await store.put_object("b", "k", blocks(*parts))

        assert await content(store, "k") == b"".join(parts)

    @pytest.mark.spec("PLG-011")
    @pytest.mark.parametrize("parts", [(), (b"",)], ids=["no block", "an empty block"])
    async def test_keeps_an_empty_object(self, store: ObjectStorePlugin, parts: tuple[bytes, ...]) -> None:
        await store.put_object("b", "empty", blocks(*parts))

        assert await store.object_exists("b", "empty")
        assert await content(store, "empty") == b""

    @pytest.mark.spec("PLG-015")
    async def test_small_blocks_add_up(self, store: ObjectStorePlugin) -> None:
        text = b"this is the content, in blocks of three"
        await store.put_object("b", "k", blocks(*(text[at : at + 3] for at in range(0, 39, 3))))

        assert await content(store, "k") == text

    async def test_moves_a_large_object(self, store: ObjectStorePlugin) -> None:
        block = bytes(range(256)) * 4096
        await store.put_object("b", "large", blocks(*[block] * 100))

        size = 0
        async for part in store.get_object("b", "large"):
            size += len(part)
        assert size == 100 << 20

    async def test_a_missing_object(self, store: ObjectStorePlugin) -> None:
        assert not await store.object_exists("b", "missing")
        with pytest.raises(PluginCallError, match="key not found"):
            await content(store, "missing")

    @pytest.mark.spec("PLG-027")
    async def test_a_refusal_is_heard_while_sending(self, store: ObjectStorePlugin) -> None:
        with pytest.raises(PluginCallError, match="the object is refused"):
            await store.put_object("b", "refuse", blocks(*[b"x" * 16384] * 1000))

        assert not await store.object_exists("b", "refuse")

    async def test_a_broken_body_stores_nothing_and_stays_itself(self, store: ObjectStorePlugin) -> None:
        async def broken() -> AsyncGenerator[bytes, None]:
            yield b"x" * 20_000
            raise LookupError("the source broke")

        with pytest.raises(LookupError, match="the source broke"):
            await store.put_object("b", "k", broken())

        assert not await store.object_exists("b", "k")

    async def test_lists_keys_and_prefixes(self, store: ObjectStorePlugin) -> None:
        keys = ["a-prefix/foo-1/bar", "a-prefix/foo-1/baz", "a-prefix/foo-2/baz", "x/y"]
        for key in keys:
            await store.put_object("b", key, blocks(b"x"))

        prefixes = await store.list_common_prefixes("b", "a-prefix/", "/")
        assert sorted(prefixes) == ["a-prefix/foo-1/", "a-prefix/foo-2/"]
        assert sorted(await store.list_objects("b", "a-prefix/")) == keys[:3]
        await store.delete_object("b", "x/y")
        assert sorted(await store.list_objects("b", "")) == keys[:3]
        assert list(await store.list_objects("other", "")) == []

    @pytest.mark.spec("PLG-014")
    async def test_signs_a_url(self, store: ObjectStorePlugin) -> None:
        url = await store.create_signed_url("b", "k", timedelta(minutes=10))

        assert url == "memory://b/k?ttl=600000000000&marker=m1"

    async def test_refuses_a_configuration(self, operation: PluginSession) -> None:
        store = operation.object_store("example.io/memory")

        with pytest.raises(PluginCallError, match=r"plugin example\.io/memory: .*config refused"):
            await store.init({"fail": "yes"})


class TestVolumeSnapshotter:
    @pytest.fixture
    async def snapshotter(self, operation: PluginSession) -> VolumeSnapshotter:
        snapshotter = operation.volume_snapshotter("example.io/snapshots")
        await snapshotter.init({"region": "north"})
        return snapshotter

    async def test_takes_and_deletes_snapshots(self, snapshotter: VolumeSnapshotter) -> None:
        snapshot = await snapshotter.create_snapshot("v1", "az1", {"b": "2", "a": "1"})

        assert snapshot == "snapshot north v1 az1 a=1,b=2"
        await snapshotter.delete_snapshot(snapshot)
        with pytest.raises(PluginCallError, match="snapshot not found"):
            await snapshotter.delete_snapshot("missing")

    @pytest.mark.spec("PLG-017")
    async def test_no_iops_are_none(self, snapshotter: VolumeSnapshotter) -> None:
        assert await snapshotter.get_volume_info("fast", "") == VolumeInfo(volume_type="ssd", iops=100)
        assert await snapshotter.get_volume_info("slow", "") == VolumeInfo(volume_type="disk", iops=None)
        create = snapshotter.create_volume_from_snapshot
        assert await create("s1", "ssd", "az1", None) == "volume s1 ssd az1"
        assert await create("s1", "ssd", "az1", 7) == "volume s1 ssd az1 7"

    async def test_volumes_of_others_have_no_id(self, snapshotter: VolumeSnapshotter) -> None:
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {}}

        assert await snapshotter.get_volume_id(volume) == ""
        changed = await snapshotter.set_volume_id(volume, "v9")
        assert changed["spec"] == {"sample": {"id": "v9"}}
        assert await snapshotter.get_volume_id(changed) == "v9"


@pytest.mark.spec("PLG-003")
async def test_a_provider_without_a_plugin(operation: PluginSession) -> None:
    with pytest.raises(PluginNotFound, match=r"unable to locate ObjectStore plugin named velero\.io/x"):
        operation.object_store("x")
    with pytest.raises(PluginNotFound, match=r"named example\.io/memory"):
        operation.volume_snapshotter("example.io/memory")


class TestDeadline:
    @pytest.fixture
    def deadlines(self) -> Deadlines:
        return Deadlines(work=3.0)

    async def test_a_plugin_that_hangs_fails_one_item(self, operation: PluginSession) -> None:
        (action,) = operation.backup_actions
        with pytest.raises(PluginError, match=r"example\.io/backup.*answer"):
            await action.execute(pod("hang"), BACKUP)

        assert await action.execute(pod(), BACKUP) == (pod(), [])


@pytest.mark.parametrize("way", ["own program", "compiled program"], indirect=True)
async def test_a_crash_fails_one_item(operation: PluginSession, log: RecordingLog) -> None:
    (action,) = operation.backup_actions
    with pytest.raises(PluginGone, match=r"example\.io/backup: .*exit code 3"):
        await action.execute(pod("crash"), BACKUP)

    assert await action.execute(pod(), BACKUP) == (pod(), [])
    assert any("exit code 3; starting it again" in text for text in log.messages("warning"))


def test_every_kind_of_velero_1_6_is_here(installed: InstalledPlugins) -> None:
    later = {  # test_later_kinds.py has them
        PluginKind.BACKUP_ITEM_ACTION_V2,
        PluginKind.RESTORE_ITEM_ACTION_V2,
        PluginKind.ITEM_BLOCK_ACTION,
    }
    assert {plugin.kind for plugin in installed.ids} == set(PluginKind) - later

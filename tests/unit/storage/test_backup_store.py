"""What a backup's directory holds after success, failure and death at any point; reading; deletion."""

import asyncio
import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encoding import compress
from pinnace.storage.errors import (
    BackupExists,
    InvalidLocation,
    ObjectNotFound,
    ReadOnlyLocation,
    StorageError,
    StoreUnavailable,
    UnreadableObject,
)
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.interface import Body
from pinnace.storage.layout import Layout, clean_prefix
from pinnace.storage.location_files import ReadLimits
from tests.support.clock import HurriedClock
from tests.support.stores.faulty_store import DyingStore, FaultyStore

TARBALL = b"tarball " * 1000
LOG = "-logs.gz"
SUFFIXES = [
    ".tar.gz",
    LOG,
    "-podvolumebackups.json.gz",
    "-volumesnapshots.json.gz",
    "-resource-list.json.gz",
    "-csi-volumesnapshots.json.gz",
    "-csi-volumesnapshotcontents.json.gz",
]
MakeFiles = Callable[..., BackupFiles]


def keys_of(name: str, prefix: str = "") -> list[str]:
    directory = f"{prefix}backups/{name}/"
    return sorted([f"{directory}velero-backup.json", *(f"{directory}{name}{suffix}" for suffix in SUFFIXES)])


@pytest.fixture
def inner(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path / "store")


@pytest.fixture
def faulty(inner: FilesystemStore) -> FaultyStore:
    return FaultyStore(inner)


@pytest.fixture
def backups(faulty: FaultyStore) -> BackupStore:
    return BackupStore(faulty, Layout(""), location="default")


@pytest.fixture
def make_files(tmp_path: Path) -> MakeFiles:
    def made(name: str = "b1", **changes: object) -> BackupFiles:
        contents, log = tmp_path / f"{name}.tar.gz", tmp_path / f"{name}.log"
        contents.write_bytes(TARBALL)
        log.write_bytes(compress(b"line\n"))
        backup = Backup(metadata=ObjectMeta(name=name, namespace="velero"))
        files = BackupFiles(name=name, metadata=encode_metadata(backup), contents=contents, log=log)
        return replace(files, **changes)

    return made


async def stored(store: FilesystemStore) -> list[str]:
    return sorted(await store.list_keys(""))


def fail_on(operation: str, suffix: str, text: str = "broken") -> Callable[[str, str], StorageError | None]:
    def fault(called: str, key: str) -> StorageError | None:
        return StorageError(text) if called == operation and key.endswith(suffix) else None

    return fault


class _Forgetful(FaultyStore):
    """A store whose put says that all is well, and keeps of one file nothing or its first bytes."""

    def __init__(self, inner: FilesystemStore, suffix: str, kept: int | None) -> None:
        super().__init__(inner)
        self._suffix, self._kept = suffix, kept

    async def put(self, key: str, body: Body) -> None:
        if not key.endswith(self._suffix):
            await super().put(key, body)
            return
        whole = body if isinstance(body, bytes) else b"".join([block async for block in body])
        if self._kept is not None:
            await super().put(key, whole[: self._kept])


class TestPut:
    @pytest.mark.spec("STO-011")
    @pytest.mark.parametrize("prefix", ["", "a/b/"])
    async def test_a_backup_has_eight_files(
        self, inner: FilesystemStore, make_files: MakeFiles, prefix: str
    ) -> None:
        await BackupStore(inner, Layout(prefix), location="default").put_backup(make_files())

        assert await stored(inner) == keys_of("b1", prefix)

    @pytest.mark.spec("STO-011")
    async def test_six_without_the_csi_ones(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        await backups.put_backup(make_files(csi_volume_snapshots=None, csi_volume_snapshot_contents=None))

        assert await stored(inner) == [key for key in keys_of("b1") if "-csi-" not in key]

    @pytest.mark.spec("STO-021", "STO-038")
    async def test_what_an_empty_backup_holds(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        await backups.put_backup(make_files())

        for suffix in SUFFIXES[2:]:
            async with inner.get(f"backups/b1/b1{suffix}") as stream:
                packed = b"".join([block async for block in stream])
            expected = b"{}\n" if "resource-list" in suffix else b"null\n"
            assert gzip.decompress(packed) == expected
            assert packed[3:8] == bytes(5)
        assert await backups.read_snapshots("b1") == []
        assert list(await backups.read_pod_volume_backups("b1")) == []
        assert list(await backups.read_csi_volume_snapshot_contents("b1")) == []
        assert await backups.read_resource_list("b1") == {}

    @pytest.mark.parametrize("suffix", ["b1.tar.gz", "-resource-list.json.gz", "velero-backup.json"])
    @pytest.mark.parametrize(
        ("kept", "problem"), [(None, "the location does not have it"), (3, "has 3 bytes in the location")]
    )
    async def test_a_file_that_a_put_only_claims_to_have_stored_fails_the_backup(
        self, inner: FilesystemStore, make_files: MakeFiles, suffix: str, kept: int | None, problem: str
    ) -> None:
        backups = BackupStore(_Forgetful(inner, suffix, kept), Layout(""), location="default")

        with pytest.raises(StorageError, match=problem):
            await backups.put_backup(make_files())

        assert await stored(inner) == [f"backups/b1/b1{LOG}"]

    async def test_metadata_is_the_last_write(
        self, backups: BackupStore, faulty: FaultyStore, make_files: MakeFiles
    ) -> None:
        await backups.put_backup(make_files())

        puts = [key for operation, key in faulty.calls if operation == "put"]
        assert puts[:2] == ["backups/b1/b1-pinnace-writer.json", "backups/b1/b1-logs.gz"]
        assert puts[-1] == "backups/b1/velero-backup.json"

    @pytest.mark.spec("STO-012", "STO-013", "STO-016", "BEY-008")
    @pytest.mark.parametrize(
        "suffix", ["velero-backup.json", *(f"b1{suffix}" for suffix in SUFFIXES if suffix != LOG)]
    )
    async def test_a_file_that_cannot_be_stored_leaves_only_the_log(
        self,
        backups: BackupStore,
        faulty: FaultyStore,
        inner: FilesystemStore,
        make_files: MakeFiles,
        suffix: str,
    ) -> None:
        faulty.fault = fail_on("put", suffix)
        with pytest.raises(StorageError, match=r"^broken$"):
            await backups.put_backup(make_files())

        assert await stored(inner) == ["backups/b1/b1-logs.gz"]
        assert not await backups.exists("b1")

    @pytest.mark.spec("STO-013")
    async def test_a_tarball_that_cannot_be_read_leaves_only_the_log(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles, tmp_path: Path
    ) -> None:
        with pytest.raises(StorageError, match="cannot read nowhere: No such file"):
            await backups.put_backup(make_files(contents=tmp_path / "nowhere"))

        assert await stored(inner) == ["backups/b1/b1-logs.gz"]

    @pytest.mark.spec("STO-014", "BEY-008")
    async def test_a_log_that_cannot_be_stored_does_no_harm(
        self,
        backups: BackupStore,
        faulty: FaultyStore,
        inner: FilesystemStore,
        make_files: MakeFiles,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        faulty.fault = fail_on("put", LOG)
        await backups.put_backup(make_files())

        assert await stored(inner) == [key for key in keys_of("b1") if not key.endswith(LOG)]
        assert "The log of backup b1 could not be stored: broken" in caplog.text

    @pytest.mark.spec("STO-015")
    async def test_without_metadata_only_the_log_is_stored(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        await backups.put_backup(make_files(metadata=None))

        assert await stored(inner) == ["backups/b1/b1-logs.gz"]

    async def test_what_cannot_be_encoded_leaves_only_the_log(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        with pytest.raises(StorageError, match="backup 'b1': cannot encode"):
            await backups.put_backup(make_files(pod_volume_backups=[{"a": object()}]))

        assert await stored(inner) == ["backups/b1/b1-logs.gz"]

    async def test_errors_of_putting_and_removing_are_combined(
        self, backups: BackupStore, faulty: FaultyStore, make_files: MakeFiles
    ) -> None:
        def fault(operation: str, key: str) -> StorageError | None:
            if key.endswith("velero-backup.json"):
                return StorageError("a" if operation == "put" else "c") if operation != "exists" else None
            return None

        faulty.fault = fault
        with pytest.raises(StorageError, match=r"^\[a, c\]$"):
            await backups.put_backup(make_files())

    async def test_what_might_look_finished_stays_complete(
        self, backups: BackupStore, faulty: FaultyStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        """Nothing else is deleted if the metadata arrived although its put failed, and cannot be deleted."""

        class AnswerLost(FaultyStore):
            async def put(self, key: str, body: Body) -> None:
                await super().put(key, body)
                if key.endswith("velero-backup.json"):
                    raise StoreUnavailable("no answer")

        store = AnswerLost(inner, fail_on("delete", "velero-backup.json"))
        with pytest.raises(StorageError, match=r"\[no answer, broken\]"):
            await BackupStore(store, Layout(""), location="default").put_backup(make_files())

        assert await stored(inner) == keys_of("b1")

    async def test_a_finished_backup_is_not_overwritten(
        self, backups: BackupStore, make_files: MakeFiles, tmp_path: Path
    ) -> None:
        await backups.put_backup(make_files())
        with pytest.raises(BackupExists, match="backup 'b1' already exists"):
            await backups.put_backup(make_files(log=None, contents=tmp_path / "nowhere"))

        assert await backups.download_contents("b1", tmp_path / "out") == len(TARBALL)

    @pytest.mark.parametrize("suffix", [".tar.gz", "-resource-list.json.gz", "velero-backup.json"])
    async def test_cancelled_half_way(
        self, inner: FilesystemStore, make_files: MakeFiles, suffix: str
    ) -> None:
        reached = asyncio.Event()

        class Hanging(FaultyStore):
            async def put(self, key: str, body: Body) -> None:
                if key.endswith(suffix):
                    reached.set()
                    await asyncio.Event().wait()
                await super().put(key, body)

        backups = BackupStore(Hanging(inner), Layout(""), location="default")
        putting = asyncio.create_task(backups.put_backup(make_files()))
        await reached.wait()
        putting.cancel()
        await asyncio.wait({putting})

        assert putting.cancelled()
        assert await stored(inner) == ["backups/b1/b1-logs.gz"]

    async def test_cancelled_twice_cleans_up_all_the_same(
        self, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        putting_metadata, deleting, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

        class Slow(FaultyStore):
            async def put(self, key: str, body: Body) -> None:
                if key.endswith("velero-backup.json"):
                    putting_metadata.set()
                    await asyncio.Event().wait()
                await super().put(key, body)

            async def delete(self, key: str) -> None:
                deleting.set()
                await go_on.wait()
                await super().delete(key)

        backups = BackupStore(Slow(inner), Layout(""), location="default")
        putting = asyncio.create_task(backups.put_backup(make_files()))
        await putting_metadata.wait()
        putting.cancel()
        await deleting.wait()
        putting.cancel()
        go_on.set()
        await asyncio.wait({putting})

        assert putting.cancelled()
        assert await stored(inner) == ["backups/b1/b1-logs.gz"]

    async def test_later_velero_gets_its_results(self, backups: BackupStore, make_files: MakeFiles) -> None:
        results = {"warnings": {"velero": ["w"]}, "errors": {}}
        await backups.put_backup(make_files(results=results))
        await backups.put_backup(make_files("b2"))

        assert await backups.read_backup_results("b1") == results
        assert await backups.read_backup_results("b2") is None


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lifetime", range(14))
async def test_killed_between_any_two_writes_of_a_backup(
    inner: FilesystemStore, make_files: MakeFiles, lifetime: int, after_effect: bool
) -> None:
    dying = BackupStore(
        DyingStore(inner, lifetime, after_effect=after_effect), Layout(""), location="default"
    )
    try:
        await dying.put_backup(make_files(resource_list={"v1/Pod": ["a/b"]}))
    except StorageError:
        finished = False
    else:
        finished = True

    await check_whole_or_absent(inner, finished=finished)
    survivor = BackupStore(inner, Layout(""), location="default")
    await survivor.delete_backup("b1")
    assert await stored(inner) == []
    await survivor.put_backup(make_files())
    assert await stored(inner) == keys_of("b1")


@pytest.mark.parametrize("lifetime", range(1, 9))
async def test_the_name_of_a_writer_that_was_killed_is_free_once_its_claim_is_not_renewed(
    inner: FilesystemStore, make_files: MakeFiles, lifetime: int
) -> None:
    dying = BackupStore(DyingStore(inner, lifetime, after_effect=False), Layout(""), location="default")
    with pytest.raises(StorageError, match="dead"):
        await dying.put_backup(make_files(resource_list={"v1/Pod": ["a/b"]}))
    assert "backups/b1/b1-pinnace-writer.json" in await stored(inner)

    survivor = BackupStore(inner, Layout(""), location="default", clock=HurriedClock())
    await survivor.put_backup(make_files(resource_list={"v1/Pod": ["a/b"]}))
    await check_whole_or_absent(inner, finished=True)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lifetime", range(12))
async def test_killed_between_any_two_deletions(
    inner: FilesystemStore, make_files: MakeFiles, lifetime: int, after_effect: bool
) -> None:
    whole = BackupStore(inner, Layout(""), location="default")
    await whole.put_backup(make_files(resource_list={"v1/Pod": ["a/b"]}))
    dying = BackupStore(
        DyingStore(inner, lifetime, after_effect=after_effect), Layout(""), location="default"
    )
    try:
        await dying.delete_backup("b1")
    except StorageError:
        await check_whole_or_absent(inner, finished=False)
    else:
        assert await stored(inner) == []

    await whole.delete_backup("b1")
    assert await stored(inner) == []


async def check_whole_or_absent(inner: FilesystemStore, *, finished: bool) -> None:
    """The invariant: what exists can be read to the last byte."""
    backups = BackupStore(inner, Layout(""), location="default")
    exists = await backups.exists("b1")
    assert exists or not finished
    if not exists:
        return
    assert (await backups.read_backup("b1")).metadata.name == "b1"
    async with backups.read_bytes(DownloadTargetKind.BACKUP_CONTENTS, "b1") as stream:
        assert b"".join([block async for block in stream]) == TARBALL
    assert await backups.read_resource_list("b1") == {"v1/Pod": ["a/b"]}
    assert await backups.read_snapshots("b1") == []
    # A claim that could not be deleted any more does no harm.
    assert [key for key in await stored(inner) if not key.endswith("-pinnace-writer.json")] == keys_of("b1")


class TestMetadata:
    @pytest.mark.spec("STO-020")
    def test_encoding(self) -> None:
        moment = datetime(2006, 1, 2, 22, 4, 5, tzinfo=UTC)
        backup = Backup(
            metadata=ObjectMeta(name="b1", namespace="velero"),
            status=BackupStatus(completion_timestamp=moment),
        )
        text = encode_metadata(backup).decode()

        assert text.startswith('{\n  "kind": "Backup",\n  "apiVersion": "velero.io/v1",\n')
        assert '"completionTimestamp": "2006-01-02T22:04:05Z"' in text
        assert text.endswith("}")
        assert list(json.loads(text)) == ["kind", "apiVersion", "metadata", "spec", "status"]

    async def test_round_trip(self, backups: BackupStore, make_files: MakeFiles) -> None:
        files = make_files()
        await backups.put_backup(files)

        assert await backups.get_metadata("b1") == files.metadata
        assert (await backups.read_backup("b1")).metadata.name == "b1"

    @pytest.mark.parametrize(
        "data", [b"", b"foo", b"[]", b'{"kind":"Restore","apiVersion":"velero.io/v1"}', b"{}", b"null"]
    )
    async def test_other_content_is_an_error(
        self, backups: BackupStore, inner: FilesystemStore, data: bytes
    ) -> None:
        await inner.put("backups/b1/velero-backup.json", data)
        with pytest.raises(UnreadableObject, match=r"object 'backups/b1/velero-backup\.json'"):
            await backups.read_backup("b1")

    async def test_missing(self, backups: BackupStore) -> None:
        with pytest.raises(ObjectNotFound):
            await backups.get_metadata("b1")

    async def test_is_limited(self, inner: FilesystemStore) -> None:
        backups = BackupStore(inner, Layout(""), location="x", limits=ReadLimits(metadata_bytes=10))
        await inner.put("backups/b1/velero-backup.json", b"x" * 11)
        with pytest.raises(UnreadableObject, match="larger than 10 bytes"):
            await backups.get_metadata("b1")


class TestSideFiles:
    KEY = "backups/b1/b1-volumesnapshots.json.gz"

    @pytest.mark.spec("STO-018", "BEY-006", "BEY-007")
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            (b"null\n", []),
            (b"[]", []),
            (
                b'[{"spec":{"PersistentVolumeName":"pv1"}},{"spec":{"persistentVolumeName":"pv2"}}]',
                ["pv1", "pv2"],
            ),
            (b'[{"spec":{"PersistentVolumeName":"pv1","unknown":1},"more":{}}]', ["pv1"]),
        ],
    )
    async def test_snapshots(
        self, backups: BackupStore, inner: FilesystemStore, text: bytes, names: list[str]
    ) -> None:
        await inner.put(self.KEY, compress(text))

        found = await backups.read_snapshots("b1")
        assert [snapshot.spec.persistent_volume_name for snapshot in found] == names

    @pytest.mark.spec("STO-018", "BEY-006")
    async def test_snapshots_missing_written_and_damaged(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        assert await backups.read_snapshots("b1") == []
        record = VolumeSnapshot(spec=VolumeSnapshotSpec(persistent_volume_name="pv1"))
        await backups.put_backup(make_files(snapshots=[record]))
        async with backups.read_text(DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, "b1") as stream:
            assert b'"PersistentVolumeName":"pv1"' in b"".join([block async for block in stream])
        assert await backups.read_snapshots("b1") == [record]

        for damaged in (b"foo", compress(b"foo"), compress(b"7"), compress(b"[]")[:-4]):
            await inner.put(self.KEY, damaged)
            with pytest.raises(UnreadableObject, match=f"object '{self.KEY}'"):
                await backups.read_snapshots("b1")

    async def test_lists_and_objects(self, backups: BackupStore, make_files: MakeFiles) -> None:
        resources = {"v1/Pod": ["ns/a", "ns/b"], "apps/v1/Deployment": ["ns/d"]}
        await backups.put_backup(
            make_files(
                pod_volume_backups=[{"metadata": {"name": "p"}}],
                csi_volume_snapshots=[{"kind": "VolumeSnapshot"}],
                csi_volume_snapshot_contents=[{"kind": "VolumeSnapshotContent"}],
                resource_list=resources,
            )
        )

        assert list(await backups.read_pod_volume_backups("b1")) == [{"metadata": {"name": "p"}}]
        async with backups.read_text(DownloadTargetKind.CSI_SNAPSHOTS, "b1") as stream:
            assert json.loads(b"".join([block async for block in stream])) == [{"kind": "VolumeSnapshot"}]
        assert list(await backups.read_csi_volume_snapshot_contents("b1")) == [
            {"kind": "VolumeSnapshotContent"}
        ]
        assert await backups.read_resource_list("b1") == resources

    @pytest.mark.parametrize("text", [b'{"a":1}', b'{"a":[1]}', b"[1]"])
    async def test_a_strange_resource_list(
        self, backups: BackupStore, inner: FilesystemStore, text: bytes
    ) -> None:
        await inner.put("backups/b1/b1-resource-list.json.gz", compress(text))
        with pytest.raises(UnreadableObject):
            await backups.read_resource_list("b1")

    @pytest.mark.parametrize(("text", "read"), [(b"null", {}), (b'{"v1/Pod":null}', {"v1/Pod": []})])
    async def test_a_resource_list_may_have_null_for_nothing(
        self, backups: BackupStore, inner: FilesystemStore, text: bytes, read: dict[str, list[str]]
    ) -> None:
        await inner.put("backups/b1/b1-resource-list.json.gz", compress(text))
        assert await backups.read_resource_list("b1") == read

    async def test_are_limited(self, inner: FilesystemStore) -> None:
        backups = BackupStore(inner, Layout(""), location="x", limits=ReadLimits(list_bytes=1000))
        await inner.put(self.KEY, compress(b" " * 100_000))
        with pytest.raises(UnreadableObject, match="larger than 1000 bytes"):
            await backups.read_snapshots("b1")


class TestListing:
    @pytest.mark.spec("STO-017")
    @pytest.mark.parametrize("prefix", ["", "cluster-1/"])
    async def test_directories_are_listed_and_metadata_makes_them_exist(
        self, inner: FilesystemStore, make_files: MakeFiles, prefix: str
    ) -> None:
        backups = BackupStore(inner, Layout(prefix), location="default")
        assert await backups.list_backups() == []
        await backups.put_backup(make_files("b10"))
        await backups.put_backup(make_files("b1"))
        await backups.put_backup(make_files("logged", metadata=None))

        assert await backups.list_backups() == ["b1", "b10", "logged"]
        assert await backups.exists("b1")
        assert not await backups.exists("logged")
        assert not await backups.exists("other")

    async def test_directories_with_impossible_names_are_left_out(self, faulty: FaultyStore) -> None:
        class Foreign(FaultyStore):
            async def list_prefixes(self, prefix: str) -> list[str]:
                return [f"{prefix}/", f"{prefix}../", f"{prefix}b1/"]

        backups = BackupStore(Foreign(faulty), Layout(""), location="default")
        assert await backups.list_backups() == ["b1"]


class TestValidation:
    @pytest.mark.spec("STO-004", "STO-008", "STO-041", "BEY-001")
    @pytest.mark.parametrize("prefix", ["", "cluster-1", "a//b"])
    @pytest.mark.parametrize(
        "keys",
        [
            [],
            ["backups/b1/x", "restores/r1/x"],
            ["plugins/vsphere/foo", "kopia/x", "restic/x", "metadata/x", "readme.txt"],
        ],
    )
    async def test_valid(self, inner: FilesystemStore, prefix: str, keys: list[str]) -> None:
        root = {"": "", "cluster-1": "cluster-1/", "a//b": "a/b/"}[prefix]
        for key in keys:
            await inner.put(root + key, b"")
        faulty = FaultyStore(inner)
        await BackupStore(faulty, Layout(clean_prefix(prefix)), location="default").validate()

        assert faulty.calls == [("list_prefixes", root)]

    @pytest.mark.spec("STO-005", "STO-006", "STO-007", "STO-009", "BEY-001")
    @pytest.mark.parametrize(
        ("prefix", "keys", "message"),
        [
            ("", ["backup-1/velero-backup.json"], "invalid top-level directories: [backup-1]"),
            ("backups/", ["backups/backup-1/x"], "invalid top-level directories: [backup-1]"),
            (
                "",
                ["backups/b/x", "restores/r/x", "unsupported-dir/foo"],
                "invalid top-level directories: [unsupported-dir]",
            ),
            ("", ["a/x", "b/x", "c/x", "d/x"], "contains 4 invalid top-level directories: [a b c ...]"),
        ],
    )
    async def test_invalid(self, inner: FilesystemStore, prefix: str, keys: list[str], message: str) -> None:
        for key in keys:
            await inner.put(key, b"")
        with pytest.raises(InvalidLocation) as caught:
            await BackupStore(inner, Layout(prefix), location="default").validate()

        assert message in str(caught.value)

    async def test_a_listing_that_fails(self, backups: BackupStore, faulty: FaultyStore) -> None:
        faulty.fault = fail_on("list_prefixes", "")
        with pytest.raises(StorageError, match="broken"):
            await backups.validate()


class TestDeletion:
    @pytest.mark.spec("STO-019")
    async def test_all_are_tried_and_errors_combined(
        self, backups: BackupStore, faulty: FaultyStore, inner: FilesystemStore
    ) -> None:
        for name in "xyz":
            await inner.put(f"backups/bak/{name}", b"")
        errors = {"backups/bak/z": StorageError("a"), "backups/bak/x": StorageError("c")}
        faulty.fault = lambda operation, key: errors.get(key) if operation == "delete" else None
        with pytest.raises(StorageError, match=r"^\[a, c\]$"):
            await backups.delete_backup("bak")

        assert ("list_keys", "backups/bak/") in faulty.calls
        deleted = [key for operation, key in faulty.calls if operation == "delete"]
        assert deleted[1:] == ["backups/bak/z", "backups/bak/y", "backups/bak/x"]
        assert deleted[0] == "backups/bak/velero-backup.json"

    async def test_one_error_stands_alone_and_equal_ones_once(
        self, backups: BackupStore, faulty: FaultyStore, inner: FilesystemStore
    ) -> None:
        for name in "xyz":
            await inner.put(f"restores/r/{name}", b"")
        faulty.fault = lambda operation, _: StorageError("same") if operation == "delete" else None
        with pytest.raises(StorageError, match=r"^same$"):
            await backups.delete_restore("r")

    async def test_errors_that_differ_by_the_file_only_name_the_reason_once(
        self, backups: BackupStore, faulty: FaultyStore, inner: FilesystemStore
    ) -> None:
        for name in "xyz":
            await inner.put(f"restores/r/{name}", b"")
        faulty.fault = lambda operation, key: (
            StorageError(f"cannot delete {key!r}: read-only") if operation == "delete" else None
        )
        with pytest.raises(StorageError, match=r"^cannot delete '[^']+': read-only \(and 2 more like it\)$"):
            await backups.delete_restore("r")

    @pytest.mark.spec("BEY-012")
    async def test_unknown_files_too_but_no_other_backup(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        await backups.put_backup(make_files("b1"))
        await backups.put_backup(make_files("b10"))
        await inner.put("backups/b1/from/the/future", b"")
        await backups.delete_backup("b1")

        assert await stored(inner) == keys_of("b10")
        await backups.delete_backup("b1")

    async def test_what_keeps_its_metadata_keeps_everything(
        self, backups: BackupStore, faulty: FaultyStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        await backups.put_backup(make_files())
        faulty.fault = fail_on("delete", "velero-backup.json")
        with pytest.raises(StorageError, match=r"^broken$"):
            await backups.delete_backup("b1")

        assert await stored(inner) == keys_of("b1")


class TestDownloads:
    async def test_contents_are_saved_privately(
        self, backups: BackupStore, make_files: MakeFiles, tmp_path: Path
    ) -> None:
        await backups.put_backup(make_files())
        target = tmp_path / "out"

        assert await backups.download_contents("b1", target) == len(TARBALL)
        content, mode = await asyncio.to_thread(lambda: (target.read_bytes(), target.stat().st_mode & 0o777))
        assert (content, mode) == (TARBALL, 0o600)

    async def test_a_failed_download_leaves_no_file(
        self, backups: BackupStore, inner: FilesystemStore, tmp_path: Path
    ) -> None:
        target = tmp_path / "out"
        with pytest.raises(ObjectNotFound):
            await backups.download_contents("b1", target)
        assert not await asyncio.to_thread(target.exists)

        await inner.put("backups/b1/b1.tar.gz", b"x")
        with pytest.raises(StorageError, match="cannot write out"):
            await backups.download_contents("b1", tmp_path / "no" / "out")

    async def test_logs_are_read_as_text(self, backups: BackupStore, make_files: MakeFiles) -> None:
        await backups.put_backup(make_files())

        async with backups.read_text(DownloadTargetKind.BACKUP_LOG, "b1") as stream:
            assert b"".join([block async for block in stream]) == b"line\n"

    @pytest.mark.spec("STO-022")
    async def test_urls_are_of_the_kinds_keys(self, faulty: FaultyStore) -> None:
        backups = BackupStore(faulty, Layout("velero-backups/"), location="default")
        for kind in DownloadTargetKind:
            url = await backups.signed_url(kind, "my-backup")
            assert url.endswith(backups.object_key(kind, "my-backup"))
        assert backups.object_key("BackupContents", "my-backup") == (
            "velero-backups/backups/my-backup/my-backup.tar.gz"
        )
        with pytest.raises(StorageError, match="unsupported download target kind"):
            await backups.signed_url("Other", "my-backup")


class TestRestores:
    async def test_files_of_a_restore(
        self, backups: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        log = make_files().log
        assert log is not None
        results = {"errors": {"velero": ["e"]}, "warnings": {"namespaces": {"ns": ["w"]}}}
        restore = Restore(metadata=ObjectMeta(name="r1", namespace="velero"))
        await backups.put_restore_log("r1", log)
        await backups.put_restore_results("r1", results)
        await backups.put_restore_metadata("r1", encode_metadata(restore))

        assert await stored(inner) == [
            "restores/r1/restore-r1-logs.gz",
            "restores/r1/restore-r1-results.gz",
            "restores/r1/velero-restore.json",
        ]
        assert await backups.list_restores() == ["r1"]
        assert await backups.read_restore_results("r1") == results
        assert (await backups.read_restore("r1")).metadata.name == "r1"
        await backups.delete_restore("r1")
        assert await backups.list_restores() == []
        with pytest.raises(ObjectNotFound):
            await backups.read_restore_results("r1")

    async def test_a_restore_of_another_kind(self, backups: BackupStore, inner: FilesystemStore) -> None:
        await inner.put("restores/r1/velero-restore.json", b'{"kind":"Backup","apiVersion":"velero.io/v1"}')
        with pytest.raises(UnreadableObject):
            await backups.read_restore("r1")


class TestReadOnly:
    @pytest.fixture
    def read_only(self, inner: FilesystemStore) -> BackupStore:
        return BackupStore(inner, Layout(""), location="archive", read_only=True)

    async def test_backups_are_neither_written_nor_deleted(
        self, backups: BackupStore, read_only: BackupStore, inner: FilesystemStore, make_files: MakeFiles
    ) -> None:
        await backups.put_backup(make_files())
        before = await stored(inner)
        assert read_only.read_only
        with pytest.raises(ReadOnlyLocation, match="cannot write backup b2 because"):
            await read_only.put_backup(make_files("b2"))
        with pytest.raises(ReadOnlyLocation) as caught:
            await read_only.delete_backup("b1")
        with pytest.raises(ReadOnlyLocation):
            await read_only.delete_restore("r1")

        assert str(caught.value) == (
            "cannot delete backup because backup storage location archive is currently in read-only mode"
        )
        assert await stored(inner) == before
        assert await read_only.list_backups() == ["b1"]
        assert (await read_only.signed_url("BackupLog", "b1")).startswith("file:")

    async def test_restores_are_written_as_velero_does(self, read_only: BackupStore) -> None:
        await read_only.put_restore_results("r1", {})

        assert await read_only.read_restore_results("r1") == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "../restores/r1"])
async def test_names_cannot_lead_elsewhere(
    backups: BackupStore, faulty: FaultyStore, make_files: MakeFiles, name: str
) -> None:
    files = replace(make_files(), name=name)
    for call in (
        backups.put_backup(files),
        backups.delete_backup(name),
        backups.delete_restore(name),
        backups.exists(name),
        backups.get_metadata(name),
        backups.signed_url("BackupLog", name, ttl=timedelta(seconds=1)),
        backups.put_restore_results(name, {}),
    ):
        with pytest.raises(StorageError, match="cannot be the name"):
            await call
    assert faulty.calls == []


@pytest.mark.spec("STO-020")
def test_stored_metadata_is_indented_and_has_its_kind_first_and_times_of_go() -> None:
    backup = Backup()
    backup.status.completion_timestamp = datetime(2006, 1, 2, 22, 4, 5, tzinfo=UTC)
    text = encode_metadata(backup).decode()
    assert text.startswith('{\n  "kind": "Backup",\n  "apiVersion": "velero.io/v1",\n')
    assert text.endswith("}")
    assert '"completionTimestamp": "2006-01-02T22:04:05Z"' in text

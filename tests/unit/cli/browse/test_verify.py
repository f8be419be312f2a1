"""`backup verify`: defects of a stored backup are found and named."""

import gzip
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.api.objects import JSONObject
from pinnace.browse import index_check
from pinnace.browse.stored import StoredBackup
from pinnace.cli.main import run
from pinnace.storage.errors import StorageError
from tests.support.failing import SMALL_DISK_BYTES, small_disk
from tests.support.stores import golden
from tests.support.stores.indexed_backups import config_map, rewrite, secret, store
from tests.support.stores.verifying import checks

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def directory(location: Path) -> Path:
    return _whole(location, "b1", [config_map("a", x="1"), config_map("b"), secret("c")])


def _whole(location: Path, name: str, objects: list[JSONObject]) -> Path:
    """A backup with all files that every backup has."""
    made = store(location, name, objects)
    (made / f"{name}-volumesnapshots.json.gz").write_bytes(gzip.compress(b"null\n", mtime=0))
    (made / f"{name}-logs.gz").write_bytes(gzip.compress(b"a line\n", mtime=0))
    return made


def test_a_sound_backup_passes_all_checks(directory: Path, capsys: Printed) -> None:
    code, found = checks(capsys, "b1")
    assert code == 0
    assert {result for result, _ in found.values()} == {"ok"}
    assert found["tarball"][1].startswith("3 items")
    assert found["index"] == ("ok", "3 checksums")
    assert found["copies of items"] == ("ok", "3 pairs")


def test_a_location_without_backups_is_said_to_have_none(location: Path, capsys: Printed) -> None:
    (location / "backups").mkdir(parents=True, exist_ok=True)

    assert run(["backup", "verify", "--all"]) == 0

    assert f"No backups in {location}." in capsys.readouterr().err


@pytest.mark.parametrize("version", golden.VERSIONS[1:])
def test_backups_of_velero_pass_all_checks(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PINNACE_LOCATION", str(golden.unpack(version, tmp_path)))
    assert run(["backup", "verify", "--all"]) == 0
    out = capsys.readouterr().out
    assert "BAD" not in out
    assert out.count("resource list = content   ok") == 4
    # Volume data that is not checked is named.
    assert ("not checked" in out) == (version == "1.16.2")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"kind": "Restore"}'], ids=["cut", "list", "kind"])
def test_a_backup_with_unreadable_metadata_is_reported(
    directory: Path, capsys: Printed, content: bytes
) -> None:
    store(directory.parents[1], "b2", [config_map("a")])
    (directory / "velero-backup.json").write_bytes(content)

    code = run(["backup", "verify", "--all", "-o", "json"])

    sound = {each["backup"]: each["sound"] for each in json.loads(capsys.readouterr().out)}
    assert (code, sound["b1"]) == (1, False)
    assert "b2" in sound
    code, found = checks(capsys, "b1")
    assert code == 1
    result, detail = found["metadata"]
    assert result == "BAD"
    assert detail.startswith("the metadata of backup b1 cannot be read: ")


def _changed(name: str, data: bytes) -> tuple[str, bytes]:
    return name, data.replace(b'"x":"1"', b'"x":"2"')


def _without_b(name: str, data: bytes) -> tuple[str, bytes] | None:
    return None if name.endswith("/b.json") else (name, data)


def _renamed(name: str, data: bytes) -> tuple[str, bytes]:
    return name.replace("/b.json", "/z.json"), data


def _other_copy(name: str, data: bytes) -> tuple[str, bytes]:
    return name, data.replace(b'"x":"1"', b'"x":"2"') if "preferredversion" not in name else data


def _without_the_copy_of_b(name: str, data: bytes) -> tuple[str, bytes] | None:
    return None if name.endswith("/b.json") and "preferredversion" not in name else (name, data)


def _no_json(name: str, data: bytes) -> tuple[str, bytes]:
    return name, b"{" if name.endswith("/b.json") else data


@pytest.mark.parametrize(
    ("change", "check", "detail"),
    [
        (_changed, "index", "configmaps shop/a: the checksum differs"),
        (_without_b, "index", "configmaps shop/b is not in the tarball"),
        (_without_b, "resource list = content", "v1/ConfigMap shop/b is listed, but not in the tarball"),
        (_renamed, "tarball", "configmaps shop/z: the object in it has another name"),
        (_renamed, "index", "configmaps shop/z is not in the index"),
        (_renamed, "resource list = content", "configmaps shop/z is in the tarball, but not listed"),
        (
            _other_copy,
            "copies of items",
            "configmaps shop/a: its copies under its version",
        ),
        (_without_the_copy_of_b, "copies of items", "configmaps shop/b has no copy without version"),
        (_no_json, "tarball", "configmaps shop/b: not valid JSON"),
    ],
)
def test_a_tarball_that_was_tampered_with_is_detected(
    directory: Path, capsys: Printed, change: Any, check: str, detail: str
) -> None:
    rewrite(directory / "b1.tar.gz", change)
    code, found = checks(capsys, "b1")
    assert code == 1
    assert found[check][0] == "BAD"
    assert detail in found[check][1]


@pytest.mark.parametrize(
    ("file", "content", "check", "detail"),
    [
        ("b1.tar.gz", None, "tarball", "has no tarball"),
        ("b1.tar.gz", b"no gzip", "tarball", "damaged"),
        ("b1-pinnace-index.json.gz", b"no gzip", "index", "damaged"),
        ("b1-resource-list.json.gz", None, "resource list", "missing"),
        ("b1-resource-list.json.gz", gzip.compress(b"{", mtime=0), "resource list", "not valid JSON"),
        ("b1-resource-list.json.gz", gzip.compress(b"[1]", mtime=0), "resource list", "not an object"),
        (
            "b1-resource-list.json.gz",
            gzip.compress(b'{"v1/Pod": 1}', mtime=0),
            "resource list",
            "not an object of arrays",
        ),
        (
            "b1-resource-list.json.gz",
            gzip.compress(b'{"v1/Pod": [1]}', mtime=0),
            "resource list",
            "not an object of arr",
        ),
        ("b1-volumesnapshots.json.gz", gzip.compress(b"[{}]", mtime=0)[:-3], "volume snapshots", "cut off"),
        ("b1-logs.gz", b"no gzip", "log", "not valid gzip"),
        ("b1-podvolumebackups.json.gz", b"no gzip", "volumes", "cannot be read"),
    ],
)
def test_files_that_are_missing_or_damaged_are_named(
    directory: Path, capsys: Printed, file: str, content: bytes | None, check: str, detail: str
) -> None:
    if content is None:
        (directory / file).unlink()
    else:
        (directory / file).write_bytes(content)
    code, found = checks(capsys, "b1")
    assert code == 1
    assert found[check][0] == "BAD"
    assert detail in found[check][1]


@pytest.mark.parametrize(
    "words",
    [["verify", "--all"], ["search", "--all", "x", "--content"], ["history", "cm/a"]],
    ids=["verify", "search", "history"],
)
def test_no_more_than_two_tarballs_are_kept_at_once(
    location: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    for number in range(5):
        store(location, f"b{number}", [config_map("a", x=str(number))], index=False, day=number)
    kept: list[int] = []
    tarball = StoredBackup.tarball

    async def watched(self: StoredBackup) -> Path:
        path = await tarball(self)
        kept.append(len(list(path.parent.glob("*.tar.gz"))))
        return path

    monkeypatch.setattr(StoredBackup, "tarball", watched)
    run(words if words[0] == "history" else ["backup", *words])

    assert len(kept) >= 5
    assert max(kept) <= (2 if words[0] == "history" else 1)


def test_a_full_disk_of_this_machine_makes_no_backup_bad(location: Path, capsys: Printed) -> None:
    directory = store(location, "b1", [])
    (directory / "b1.tar.gz").write_bytes(os.urandom(2 * SMALL_DISK_BYTES))

    with small_disk():
        assert run(["backup", "verify", "b1"]) == 1

    out, err = capsys.readouterr()
    assert "BAD" not in out
    assert err.startswith("An error occurred: the tarball of backup b1 cannot be stored: ")


def test_a_backup_too_big_for_this_machine_does_not_hide_the_others(location: Path, capsys: Printed) -> None:
    for name in ("b1", "b2", "b3"):
        directory = _whole(location, name, [config_map("a")])
        if name == "b2":
            (directory / "b2.tar.gz").write_bytes(os.urandom(2 * SMALL_DISK_BYTES))

    with small_disk():
        assert run(["backup", "verify", "--all", "-o", "json"]) == 1

    out, err = capsys.readouterr()
    found = json.loads(out)
    tarballs = {
        each["backup"]: check["result"]
        for each in found
        for check in each["checks"]
        if check["check"] == "tarball"
    }
    assert {each["backup"]: each["sound"] for each in found} == {"b1": True, "b2": False, "b3": True}
    assert tarballs == {"b1": "ok", "b2": "not checked", "b3": "ok"}
    assert err.startswith("An error occurred: the tarball of backup b2 cannot be stored: ")


def test_what_was_found_before_the_store_failed_is_printed(
    location: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    for name in ("b1", "b2"):
        store(location, name, [config_map("a")])
    tarball = StoredBackup.tarball

    async def cut(self: StoredBackup) -> Path:
        if self.name == "b2":
            raise StorageError("the store is gone")
        return await tarball(self)

    monkeypatch.setattr(StoredBackup, "tarball", cut)

    assert run(["backup", "verify", "--all", "-o", "json"]) == 1

    out, err = capsys.readouterr()
    assert [each["backup"] for each in json.loads(out)] == ["b1"]
    assert "the store is gone" in err


@pytest.mark.parametrize("place", ["member", "item"])
def test_an_index_with_a_wrong_place_is_reported(directory: Path, capsys: Printed, place: str) -> None:
    index = directory / "b1-pinnace-index.json.gz"
    lines = [json.loads(line) for line in gzip.decompress(index.read_bytes()).splitlines()]
    if place == "member":
        lines[1]["member"] += 1
    else:
        lines[2][-1] += 512
    index.write_bytes(gzip.compress(b"\n".join([*map(orjson.dumps, lines), b""])))

    code, found = checks(capsys, "b1")

    assert (code, found["index"][0]) == (1, "BAD")
    assert "configmaps shop/a: the index says that it is elsewhere in the tarball" in found["index"][1]


def test_a_flipped_bit_is_found(directory: Path, capsys: Printed) -> None:
    tarball = directory / "b1.tar.gz"
    data = bytearray(tarball.read_bytes())
    data[len(data) // 2] ^= 1
    tarball.write_bytes(data)
    assert checks(capsys, "b1")[1]["tarball"][0] == "BAD"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"phase": "InProgress"}, "the phase is InProgress"),
        ({"startTimestamp": "2027-01-01T00:00:00Z"}, "ended before it started"),
        ({"completionTimestamp": None}, "lacks the time"),
    ],
)
def test_contradictory_metadata_is_reported(
    directory: Path, capsys: Printed, change: dict[str, Any], detail: str
) -> None:
    path = directory / "velero-backup.json"
    backup = orjson.loads(path.read_bytes())
    backup["status"].update(change)
    path.write_bytes(orjson.dumps(backup))
    code, found = checks(capsys, "b1")
    assert code == 1
    assert detail in found["metadata"][1]


@pytest.mark.found("G1")
@pytest.mark.parametrize(("added", "code"), [("c", 0), ("another", 1)])
def test_what_an_operation_adds_at_its_end_need_not_be_listed(
    directory: Path, capsys: Printed, added: str, code: int
) -> None:
    """Velero stores the DataUploads of moved data so, and leaves the resource list as it was."""
    path = directory / "b1-resource-list.json.gz"
    listed = json.loads(gzip.decompress(path.read_bytes()))
    del listed["v1/Secret"]
    path.write_bytes(gzip.compress(json.dumps(listed).encode()))
    item = {"Group": "", "Resource": "secrets", "Namespace": "shop", "Name": added}
    operations = [{"spec": {"postOperationItems": [item]}, "status": {"phase": "Completed"}}]
    (directory / "b1-itemoperations.json.gz").write_bytes(gzip.compress(json.dumps(operations).encode()))

    found_code, found = checks(capsys, "b1")

    assert (found_code, found["resource list = content"][0]) == (code, "BAD" if code else "ok")


def test_a_backup_without_an_index_is_sound(directory: Path, capsys: Printed) -> None:
    (directory / "b1-pinnace-index.json.gz").unlink()
    code, found = checks(capsys, "b1")
    assert code == 0
    assert found["index"][0] == "missing"


def _lie(index: Path, change: Callable[[list[Any]], list[Any] | None]) -> None:
    """Change the items of an index; what `change` returns is added. The count at the end fits."""
    notes = [json.loads(line) for line in gzip.decompress(index.read_bytes()).splitlines()]
    added = [more for note in notes if isinstance(note, list) and (more := change(note)) is not None]
    notes[-1:-1] = added
    notes[-1]["items"] += len(added)
    index.write_bytes(gzip.compress(b"\n".join([*map(orjson.dumps, notes), b""])))


def _put(position: int, value: Any) -> Callable[[list[Any]], None]:
    def change(item: list[Any]) -> None:
        if item[3] == "a":
            item[position] = value

    return change


@pytest.mark.found("K-F5")
@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (_put(0, "secrets"), "secrets shop/a is not in the tarball"),
        (_put(1, "v2-preferredversion"), "configmaps shop/a is not in the tarball"),
        (_put(2, "other"), "configmaps other/a is not in the tarball"),
        (_put(3, "forged"), "configmaps shop/forged is not in the tarball"),
        (_put(4, "v2"), "configmaps shop/a: the index has another apiVersion than the item"),
        (_put(5, "Secret"), "configmaps shop/a: the index has another kind than the item"),
        (_put(6, "uid-forged"), "configmaps shop/a: the index has another uid than the item"),
        (_put(7, "99"), "configmaps shop/a: the index has another resourceVersion than the item"),
        (_put(8, {"app": "forged"}), "configmaps shop/a: the index has another labels than the item"),
        (_put(8, None), "configmaps shop/a: the index has another labels than the item"),
        (_put(9, 1), "configmaps shop/a: the index has another size than the item"),
        (_put(10, "0" * 64), "configmaps shop/a: the checksum differs"),
        (lambda item: list(item) if item[3] == "a" else None, "configmaps shop/a is"),
        (lambda item: list(item), "secrets shop/c is twice in the index"),
    ],
)
def test_an_index_that_lies_about_an_item_is_reported(
    directory: Path, capsys: Printed, change: Any, detail: str
) -> None:
    _lie(directory / "b1-pinnace-index.json.gz", change)

    code, found = checks(capsys, "b1")

    assert (code, found["index"][0]) == (1, "BAD")
    assert detail in found["index"][1]


@pytest.mark.found("K-F5", "K-F7")
def test_an_index_of_invented_items_is_left_at_a_limit(
    directory: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_check, "MOST_WAITING", 2)
    _lie(directory / "b1-pinnace-index.json.gz", lambda item: [*item[:3], f"{item[3]}-x", *item[4:]])

    code, found = checks(capsys, "b1")

    assert (code, found["index"][0]) == (1, "BAD")
    assert "it names more than 2 items that the tarball does not have there" in found["index"][1]


@pytest.mark.found("K-F8")
@pytest.mark.parametrize("name", ["another-backup", None, "..", "b1\x1b[2J"])
def test_metadata_of_another_backup_is_reported(directory: Path, capsys: Printed, name: str | None) -> None:
    path = directory / "velero-backup.json"
    backup = orjson.loads(path.read_bytes())
    backup["metadata"]["name"] = name
    path.write_bytes(orjson.dumps(backup))

    code, found = checks(capsys, "b1")

    assert (code, found["metadata"][0]) == (1, "BAD")
    assert f"it is of a backup named {name!r}" in found["metadata"][1]


@pytest.mark.found("K-F5")
@pytest.mark.parametrize(
    ("status", "files", "detail"),
    [
        ({"progress": {"itemsBackedUp": 4}}, {}, "the metadata counts 4 items, the resource list has 3"),
        ({"progress": {"itemsBackedUp": 2}}, {}, "the metadata counts 2 items, the resource list has 3"),
        ({"volumeSnapshotsAttempted": 1}, {}, "the metadata counts 1 snapshots of volumes, 0 are recorded"),
        (
            {"volumeSnapshotsAttempted": 1, "volumeSnapshotsCompleted": 1},
            {"volumesnapshots.json": [{"status": {"phase": "Failed"}}]},
            "the metadata counts 1 completed snapshots of volumes, 0 are recorded",
        ),
        (
            {},
            {
                "volumeinfo.json": [
                    {"backupMethod": "NativeSnapshot", "nativeSnapshotInfo": {"snapshotHandle": "snap-1"}}
                ]
            },
            "the volume infos name a snapshot snap-1 without a record",
        ),
        ({"errors": 3}, {"results": {}}, "the metadata counts 3 errors, the results have 0"),
        ({}, {"results": {"warnings": {"velero": ["odd"]}}}, "counts 0 warnings, the results have 1"),
    ],
)
def test_files_that_contradict_each_other_are_reported(
    directory: Path, capsys: Printed, status: JSONObject, files: Mapping[str, object], detail: str
) -> None:
    path = directory / "velero-backup.json"
    backup = orjson.loads(path.read_bytes())
    backup["status"].update(status)
    path.write_bytes(orjson.dumps(backup))
    for name, content in files.items():
        (directory / f"b1-{name}.gz").write_bytes(gzip.compress(orjson.dumps(content)))

    code, found = checks(capsys, "b1")

    assert (code, found["files agree"][0]) == (1, "BAD")
    assert detail in found["files agree"][1]


def test_what_operations_have_made_may_be_listed_beyond_the_count(directory: Path, capsys: Printed) -> None:
    path = directory / "velero-backup.json"
    backup = orjson.loads(path.read_bytes())
    backup["status"]["progress"] = {"itemsBackedUp": 2, "totalItems": 2}
    path.write_bytes(orjson.dumps(backup))
    (directory / "b1-itemoperations.json.gz").write_bytes(gzip.compress(b"[{}]"))

    assert checks(capsys, "b1")[1]["files agree"] == ("ok", "")


@pytest.mark.found("K-F5")
def test_a_resource_list_with_an_object_twice_is_reported(directory: Path, capsys: Printed) -> None:
    path = directory / "b1-resource-list.json.gz"
    listed = json.loads(gzip.decompress(path.read_bytes()))
    listed["v1/ConfigMap"].append(listed["v1/ConfigMap"][0])
    path.write_bytes(gzip.compress(orjson.dumps(listed)))

    code, found = checks(capsys, "b1")

    assert (code, found["resource list = content"][0]) == (1, "BAD")
    assert "v1/ConfigMap lists 1 object more than once" in found["resource list = content"][1]


@pytest.mark.found("K-F12")
def test_a_log_that_the_store_did_not_keep_is_said_to_be_missing(directory: Path, capsys: Printed) -> None:
    (directory / "b1-logs.gz").unlink()

    code, found = checks(capsys, "b1")

    assert code == 0  # everything can be restored
    assert found["log"] == ("missing", "the location did not keep it")

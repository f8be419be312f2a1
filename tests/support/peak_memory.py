"""The peak memory of one reader of a location's files, for each of the worst contents of one file.

A process of its own, as memory that a test runner once had hides a peak:

    python -m tests.support.peak_memory FOLDER READER FILE [CONTENT ...]

It writes a small backup and restore into FOLDER, puts one content after the other in the place of FILE, runs
READER, and prints a line of JSON for each: the content, the peak in MiB, seconds, and how the reader ended.
"""

import asyncio
import contextlib
import gzip
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from pinnace.cli.main import run
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.support.stores.indexed_backups import config_map, store

BACKUP, RESTORE = "b1", "r1"
_MIB: Final = 1 << 20

Contents = dict[str, Callable[[], "Content"]]

# --- Contents -------------------------------------------------------------------------------------------


class Content(msgspec.Struct, frozen=True):
    """A text that is written as gzip members: a beginning, a part that is repeated, and an end."""

    begin: bytes
    part: bytes
    times: int
    end: bytes

    def write(self, path: Path) -> None:
        """Write the file, compressed; each member is compressed once, however often it is there."""
        part = gzip.compress(self.part, compresslevel=1, mtime=0)
        with path.open("wb") as file:
            file.write(gzip.compress(self.begin, mtime=0))
            for _ in range(self.times):
                file.write(part)
            file.write(gzip.compress(self.end, mtime=0))


def contents(begin: bytes = b"", end: bytes = b"") -> Contents:
    """The worst contents that are known; `begin` and `end` are around each value."""

    def made(first: bytes, unit: bytes, size_bytes: int, last: bytes) -> Content:
        count = max(1, _MIB // len(unit))
        times = max(1, size_bytes // (count * len(unit)))
        return Content(begin + first, unit * count, times, last + end)

    return {
        "41 million {}": lambda: made(b"[", b"{},", 123 * _MIB, b"{}]"),
        "41 million []": lambda: made(b"[", b"[],", 123 * _MIB, b"{}]"),
        "40 million texts": lambda: made(b"[", b'"ab",', 200 * _MIB, b'"ab"]'),
        "wide texts": lambda: made(b"[", '"a😀",'.encode(), 200 * _MIB, b'"ab"]'),
        "40 million numbers": lambda: made(b"[", b"0.5,", 160 * _MIB, b"0.5]"),
        "an object of 1,000,000 keys": lambda: Content(
            begin + b"[{", b",".join([b'"key-%d":0' % number for number in range(1_000_000)]), 1, b"}]" + end
        ),
        "objects in an object": lambda: made(b'[{"a":[', b"{},", 100 * _MIB, b"{}]}]"),
        "objects of 1 MiB": lambda: Content(
            begin + b"[", b'{"a":[' + b"{}," * 340_000 + b"{}]},", 100, b"{}]" + end
        ),
        "depth of arrays": lambda: made(b"", b"[", 50 * _MIB, b""),
        "depth of objects": lambda: made(b"", b'{"a":', 50 * _MIB, b""),
        "a number of 100 million digits": lambda: made(b"[", b"9", 100 * _MIB, b"]"),
        "a text of 500 MiB": lambda: made(b'["', b"x", 500 * _MIB, b'"]'),
        "an escaped text": lambda: made(b'[{"a":"', b"\\ud83d\\ude00", 200 * _MIB, b'"}]'),
        "2 GiB of zeros": lambda: Content(b"", b"\0" * 16 * _MIB, 128, b""),
        "2 GiB of blanks": lambda: Content(begin + b"[", b" " * 16 * _MIB, 128, b"]" + end),
    }


def full_list(record: Callable[[int], Any]) -> Content:
    """As many records as a list may have."""
    return Content(b"[", b",".join([orjson.dumps(record(number)) for number in range(25_000)]), 1, b"]")


def names(count: int, length: int, *, begin: bytes = b"", end: bytes = b"") -> Content:
    """A resource list of so many objects."""
    listed = [f"namespace-{number // 100}/{number:0{length - 15}}" for number in range(count)]
    return Content(begin + b'{"v1/Pod":', orjson.dumps(listed), 1, b"}" + end)


def of_file(file: str) -> Contents:
    """The worst contents of a file, and what is just within its limits."""
    if file.endswith("pinnace-index.json"):
        return _indexes()
    if file == "velero-backup.json":
        begin = b'{"kind":"Backup","apiVersion":"velero.io/v1","metadata":{"name":"b1"},"spec":{"x":'
        return {
            **contents(begin, b"}}"),
            "4 MB of {}": lambda: Content(begin + b"[", b"{}," * 1_300_000, 1, b"{}]}}"),
            "1.5 MB of names": lambda: Content(
                begin[:-4] + b'"includedNamespaces":[', b'"namespace-%d",' % 10**9 * 60_000, 1, b'""]}}'
            ),
        }
    if file.endswith("resource-list.json"):
        return {
            **contents(b'{"v1/Pod":', b"}"),
            **contents(),
            "1,000,000 names": lambda: names(1_000_000, 40),
        }
    if file.endswith("pinnace-outcomes.json"):
        group = b'{"counts":{},"groups":[{"outcome":"failed","reason":"x","objects":'
        return {
            **contents(group + b'{"v1/Pod":', b"}}]}"),
            "1,000,000 names": lambda: names(1_000_000, 40, begin=group, end=b"}]}"),
        }
    if file.endswith("results"):
        return {
            **contents(b'{"errors":{"velero":', b"}}"),
            **contents(b'{"errors":{"namespaces":{"a":', b"}}}"),
            "150,000 errors": lambda: Content(
                b'{"errors":{"namespaces":{"a":',
                orjson.dumps([f"error {number} {'x' * 240}" for number in range(150_000)]),
                1,
                b"}}}",
            ),
        }
    return {**contents(), "a full list": lambda: full_list(_record)}


def _record(number: int) -> Any:
    """A record with fields of all kinds of lists."""
    handle = f"snapshot-{number}"
    return {
        "metadata": {"name": f"n{number}", "namespace": "velero", "labels": {"a": "b"}},
        "spec": {
            "volume": "data",
            "pod": {"namespace": "shop", "name": f"p{number}"},
            "source": {"volumeHandle": handle},
            "backupName": "b1",
            "providerVolumeID": handle,
            "resourceIdentifier": {"Group": "", "Resource": "pods", "Namespace": "shop", "Name": "x"},
            "operationID": f"du-{number}",
        },
        "status": {"phase": "Completed", "snapshotID": handle, "snapshotHandle": handle, "path": "/x"},
        "pvcName": f"c{number}",
        "pvcNamespace": "shop",
        "pvbInfo": {"snapshotHandle": handle, "podName": "x"},
        "csiSnapshotInfo": {"snapshotHandle": handle},
    }


def _indexes() -> Contents:
    head, member = b'{"pinnaceIndex":2}\n', b'{"member":0,"length":1000}\n'
    entry = (
        b'["configmaps","v1-preferredversion","shop","n-%d","v1","ConfigMap","uid-%d","%d",{"app":"a%d"},'
        b'500,"' + b"0" * 64 + b'",%d]\n'
    )

    def invented() -> Content:
        entries = [entry % (number, number, number, number, number) for number in range(1_000_000)]
        return Content(head + member, b"".join(entries), 1, b'{"items":1000000,"size":5}\n')

    def large() -> Content:
        labels = b",".join([b'"label-%d":"value"' % number for number in range(100_000)])
        return Content(head + member, (entry % (1, 1, 1, 1, 1)).replace(b'"app":"a1"', labels), 50, b"")

    return {
        "1,000,000 invented entries": invented,
        "an entry without end": lambda: Content(head + member, b"[" * _MIB, 50, b""),
        "entries of 2 MB": large,
        "2 GiB of zeros": lambda: Content(b"", b"\0" * 16 * _MIB, 128, b""),
    }


# --- Readers --------------------------------------------------------------------------------------------


def command(*words: str) -> Callable[[Path], object]:
    """Run a command on the location."""

    def read(_folder: Path) -> object:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            return run(list(words))

    return read


def in_store(reading: Callable[[BackupStore, Path], Any]) -> Callable[[Path], object]:
    """Read by the store, as operations do."""

    def read(folder: Path) -> object:
        async def opened() -> object:
            async with BackupStore(FilesystemStore(folder), Layout(""), location="x") as found:
                return await reading(found, folder)

        asyncio.run(opened())
        return "read"

    return read


async def _as_a_restore(found: BackupStore, _folder: Path) -> object:
    from pinnace.catalogue.reading import read_pod_volumes, read_records

    await found.read_backup(BACKUP)
    records = await read_records(found, BACKUP)
    return records, await read_pod_volumes(found, BACKUP, records.infos)


async def _as_a_dry_run(found: BackupStore, folder: Path) -> object:
    from pinnace.cli.restore.preview import _contents
    from pinnace.client.location import LocationBackend
    from pinnace.runs.activity import Activity
    from pinnace.storage.location_url import location_from_url

    backend = LocationBackend(found, location_from_url(str(folder)))
    return await _contents(backend, await found.read_backup(BACKUP), folder, Activity())


async def _as_a_deletion(found: BackupStore, folder: Path) -> object:
    from pinnace.catalogue.reading import read_volumes

    return await read_volumes(found, BACKUP, folder)


async def _as_a_finalization(found: BackupStore, _folder: Path) -> object:
    return (
        await found.read_raw_backup(BACKUP),
        await found.read_resource_list(BACKUP),
        await found.read_volume_infos(BACKUP),
        await found.read_backup_results(BACKUP),
    )


def _sync(folder: Path) -> object:
    """As a server makes the backups of a location known."""
    from pinnace.api.values.durations import Duration
    from pinnace.controllers.sync.backup_sync import BackupSync
    from pinnace.controllers.sync.location import Caches
    from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, SCHEDULES
    from tests.unit.controllers.fakes import Cached, World

    async def once() -> object:
        world = World(folder.parent)
        world.add_location()
        sync = BackupSync(
            world.scope,
            world.locations,
            locations=Cached(world, BACKUP_STORAGE_LOCATIONS),
            caches=Caches(backups=Cached(world, BACKUPS), schedules=Cached(world, SCHEDULES)),
            default_location="default",
            period=Duration.minutes(1),
        )
        await sync.run()
        return f"{len(world.all_of('backups'))} backups, {len(world.all_of('podvolumebackups'))} volumes"

    return asyncio.run(once())


READERS: Final[dict[str, Callable[[Path], object]]] = {
    "sync": _sync,
    "describe": command("backup", "describe", BACKUP, "--details", "--features", "EnableCSI"),
    "describe as JSON": command("backup", "describe", BACKUP, "--details", "-o", "json"),
    "describe restore": command("restore", "describe", RESTORE, "--details"),
    "verify": command("backup", "verify", BACKUP),
    "get": command("backup", "get"),
    "ls": command("backup", "ls", BACKUP),
    "show": command("backup", "show", BACKUP, "configmap/a"),
    "diff": command("backup", "diff", BACKUP, "b2"),
    "search": command("backup", "search", BACKUP, "x", "--content"),
    "restore": in_store(_as_a_restore),
    "dry run": in_store(_as_a_dry_run),
    "deletion": in_store(_as_a_deletion),
    "finalization": in_store(_as_a_finalization),
}


def _location(folder: Path) -> None:
    """Two small backups and a restore with everything that makes a reader look into each file."""
    for name, item in ((BACKUP, "a"), ("b2", "z")):
        directory = store(folder, name, [config_map(item)])
        path = directory / "velero-backup.json"
        backup = orjson.loads(path.read_bytes())
        for field in ("errors", "warnings", "volumeSnapshotsAttempted", "backupItemOperationsAttempted"):
            backup["status"][field] = 1
        path.write_bytes(orjson.dumps(backup))
    directory = folder / "restores" / RESTORE
    directory.mkdir(parents=True)
    status = {"phase": "Completed", "errors": 1, "warnings": 1, "restoreItemOperationsAttempted": 1}
    restore = {
        "apiVersion": "velero.io/v1",
        "kind": "Restore",
        "metadata": {"name": RESTORE, "namespace": "velero"},
        "spec": {"backupName": BACKUP},
        "status": status,
    }
    (directory / "velero-restore.json").write_bytes(orjson.dumps(restore))
    (directory / f"restore-{RESTORE}-resource-list.json.gz").write_bytes(gzip.compress(b'{"v1/Pod":["x"]}'))


def _peak_mib() -> int:
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def _measured(reader: Callable[[Path], object], folder: Path) -> dict[str, object]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is used now
    base_mib = _peak_mib()
    begun = time.process_time()
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            ended: object = reader(folder)
        except Exception as error:  # noqa: BLE001 - how it ended is what is asked
            ended = f"{type(error).__name__}: {error}"
    seconds = round(time.process_time() - begun, 1)
    return {
        "peak_mib": _peak_mib(),
        "base_mib": base_mib,
        "seconds": seconds,
        "ended": str(ended)[:200],
        "said": errors.getvalue()[:300],
    }


def measure(folder: Path, reader: str, file: str, only: Collection[str] = ()) -> None:
    """Print the peak of each content of a file, in a location that is made in `folder`."""
    folder.mkdir()
    _location(folder)
    os.environ["PINNACE_LOCATION"], os.environ["HOME"] = str(folder), str(folder)
    of_restore = file.startswith("restore-") or file == f"{RESTORE}-volumeinfo.json"
    directory = folder / "restores" / RESTORE if of_restore else folder / "backups" / BACKUP
    path = directory / (file if file == "velero-backup.json" else f"{file}.gz")
    READERS[reader](folder)  # what is loaded at first use
    for name, make in of_file(file).items():
        if only and name not in only:
            continue
        _in_child(partial(_write, make, path))
        _in_child(partial(_print_measured, name, READERS[reader], folder))


def _print_measured(name: str, reader: Callable[[Path], object], folder: Path) -> None:
    print(json.dumps({"content": name, **_measured(reader, folder)}), flush=True)


def _write(make: Callable[[], Content], path: Path) -> None:
    content = make()
    if path.suffix == ".json":  # metadata is not compressed
        path.write_bytes((content.begin + content.part * content.times)[: 40 * _MIB] + content.end)
    elif "pinnace-index" in path.name:  # a single gzip member
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(content.begin)
            for _ in range(content.times):
                file.write(content.part)
            file.write(content.end)
    else:
        content.write(path)


def _in_child(work: Callable[[], None]) -> None:
    """Do something in a child, which takes its memory with it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"a child ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    # The name that the location of the sync has.
    measure(Path(sys.argv[1]) / "bucket-default", sys.argv[2], sys.argv[3], sys.argv[4:])

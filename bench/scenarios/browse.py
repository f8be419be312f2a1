"""The cost of looking into backups: `python -m bench browse`.

Two tarballs of generated objects, as the API server stores them, are written with and without an index and
put into an S3 server; the second differs from the first in a few objects. Then the commands are measured as
whole processes: `backup ls` of everything and of one object, `backup show`, `backup diff` of the two, and
`backup verify`. The floors get the same file from the same server, unpack and hash it, in this process.
"""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final

import orjson

from bench.figures import MEBIBYTE, Figure, Rule, Series, Target, Unit
from bench.floor.generate import Generator
from bench.measure import Sample, run
from bench.scenarios.objects import PINNACE
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.archive.deflate import inflate
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import ArchiveWriter
from pinnace.storage.interface import ObjectStore, stream_file
from pinnace.storage.open import open_object_store
from tests.support.clock import FakeClock

OBJECTS: Final = 100_000
SIZE_TARGET: Final = Target(first=0.10, aim=0.10)
ONE_OBJECT_TARGET: Final = Target(first=2_000, aim=1_000)
DIFF_TARGET: Final = Target(first=3_000, aim=2_000)
CHANGED_EVERY: Final = 10_000
DEADLINE_SECONDS: Final = 300.0
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
Say = Callable[[str], None]
Stored = tuple[str, str, str, bytes]
"""Resource, namespace, name, content."""


def stored_objects(generator: Generator, *, second: bool) -> Iterator[Stored]:
    """The generated objects as the API server stores them; in the second backup some are changed."""
    for number, request in enumerate(generator.objects()):
        obj = orjson.loads(request.body)
        resource = request.path.rsplit("/", 1)[1]
        namespace = request.path.split("/namespaces/")[1].split("/")[0]
        given = obj.pop("metadata")
        changed = second and number % CHANGED_EVERY == 0
        metadata = {
            "name": given["name"],
            "namespace": namespace,
            "uid": f"{hashlib.md5(given['name'].encode()).hexdigest()}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": given.get("labels", {}),
            "annotations": {**given.get("annotations", {}), **({"changed": "yes"} if changed else {})},
            "managedFields": [
                {"manager": "bench", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {}}}}
            ],
        }
        head = {"apiVersion": obj.pop("apiVersion", "v1"), "kind": obj.pop("kind", resource[:-1].title())}
        yield resource, namespace, given["name"], orjson.dumps({**head, "metadata": metadata, **obj})


async def write(objects: Sequence[Stored], tarball: Path, index: Path | None) -> float:
    """Write a tarball. Returns the seconds of CPU that it took."""
    directories: dict[tuple[str, str], list[MemberDirectory]] = {}
    start = time.process_time()
    async with ArchiveWriter(tarball, clock=FakeClock(now=NOW), index=index) as writer:
        for resource, namespace, name, content in objects:
            key = resource, namespace
            if key not in directories:
                heads = (f"resources/{resource}/v1-preferredversion/", f"resources/{resource}/")
                directories[key] = [MemberDirectory(f"{head}namespaces/{namespace}/") for head in heads]
            writer.add_copies(directories[key], f"{name}.json", b"", content)
            await writer.flush_if_full()
    return time.process_time() - start


def _put(folder: Path, name: str, objects: Sequence[Stored]) -> None:
    """The files of a backup that are not its tarball and its index."""
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": name, "namespace": "velero"},
        "status": {
            "phase": "Completed",
            "startTimestamp": "2026-01-01T00:00:00Z",
            "completionTimestamp": "2026-01-01T00:01:00Z",
        },
    }
    listed: dict[str, list[str]] = {}
    for _, namespace, item, content in objects:
        head = orjson.loads(content)
        listed.setdefault(f"{head['apiVersion']}/{head['kind']}", []).append(f"{namespace}/{item}")
    (folder / "velero-backup.json").write_bytes(orjson.dumps(backup))
    (folder / f"{name}-resource-list.json.gz").write_bytes(gzip.compress(orjson.dumps(listed)))
    (folder / f"{name}-volumesnapshots.json.gz").write_bytes(gzip.compress(b"null\n"))


def measure_browse(folder: Path, generator: Generator, runs: int, say: Say) -> list[Figure]:
    """Run the scenario; needs no cluster."""
    folder.mkdir()
    server = S3Server(folder / "s3")
    server.start()
    try:
        return _measure(folder, server, generator, runs, say)
    finally:
        server.remove()


def _measure(folder: Path, server: S3Server, generator: Generator, runs: int, say: Say) -> list[Figure]:
    bucket = server.create_bucket("bench")
    root = folder / "backups"
    say(f"writing two backups of {generator.count} objects")
    plain: list[float] = []
    indexed: list[float] = []
    sizes = (0, 0)
    wanted: Stored | None = None
    for name in ("b1", "b2"):
        # A backup lists one resource after the other, and gets each in the order of namespaces.
        objects = sorted(stored_objects(generator, second=name == "b2"), key=lambda each: each[:3])
        directory = root / name
        directory.mkdir(parents=True)
        for number in range(runs if name == "b1" else 1):
            plain.append(asyncio.run(write(objects, folder / f"plain-{name}-{number}", None)))
            files = directory / f"{name}.tar.gz", directory / f"{name}-pinnace-index.json.gz"
            for file in files:
                file.unlink(missing_ok=True)
            indexed.append(asyncio.run(write(objects, *files)))
        sizes = files[0].stat().st_size, files[1].stat().st_size
        _put(directory, name, objects)
        wanted = objects[len(objects) // 2]
    assert wanted is not None
    asyncio.run(_upload(folder, server, bucket))
    commands = _Commands(folder, server, bucket, runs)
    say("looking into them")
    one = f"{wanted[0]}/{wanted[2]}", "-n", wanted[1]
    commands.run("backup", "ls", "b1", "--summary")  # compiles Python's bytecode
    ls, ls_one = commands.run("backup", "ls", "b1", "--summary"), commands.run("backup", "ls", "b1", *one)
    show = commands.run("backup", "show", "b1", *one)
    diff = commands.run("backup", "diff", "b1", "b2", "--name-only", code=1)
    verify = commands.run("backup", "verify", "b1")
    index = Series(
        name=f"getting the index, {sizes[1] / MEBIBYTE:.1f} MiB",
        values=commands.reading("b1/b1-pinnace-index.json.gz"),
    )
    tarball = Series(
        name=f"getting and hashing the tarball, {sizes[0] / MEBIBYTE:.0f} MiB",
        values=commands.reading("b1/b1.tar.gz"),
    )
    return [
        Figure(
            name="writing an archive with its index, CPU",
            unit=Unit.SECONDS,
            rule=Rule.RATIO,
            ours=Series(name="with index", values=indexed),
            floors=[Series(name="without", values=plain)],
        ),
        Figure(
            name="index, part of the tarball's size",
            unit=Unit.COUNT,
            rule=Rule.RATIO,
            ours=Series(name="index KiB", values=[sizes[1] / 1024]),
            floors=[Series(name="tarball KiB", values=[sizes[0] / 1024])],
            target=SIZE_TARGET,
        ),
        _timed("backup ls --summary", ls, index),
        _timed("backup ls of one object", ls_one, index, ONE_OBJECT_TARGET),
        _timed("backup show of one object", show, index, ONE_OBJECT_TARGET),
        _timed("backup diff of two backups", diff, index, DIFF_TARGET, rule=Rule.ALONE),
        _timed("backup verify", verify, tarball, rule=Rule.RATIO),
        *_costs("backup show", show),
        *_costs("backup diff", diff),
    ]


def _timed(
    name: str, samples: Sequence[Sample], floor: Series, target: Target | None = None, rule: Rule = Rule.ADDED
) -> Figure:
    """The time of a whole command, in milliseconds."""
    return Figure(
        name=f"{name}, S3",
        unit=Unit.MILLISECONDS,
        rule=rule,
        ours=Series(name=name, values=[sample.wall_seconds * 1000 for sample in samples]),
        floors=[floor],
        target=target,
    )


def _costs(name: str, samples: Sequence[Sample]) -> list[Figure]:
    """CPU time and memory of a command, which do not depend on the load of the machine."""

    def figure(what: str, unit: Unit, values: list[float]) -> Figure:
        return Figure(
            name=f"{name}, S3, {what}", unit=unit, rule=Rule.ALONE, ours=Series(name=name, values=values)
        )

    return [
        figure("CPU", Unit.MILLISECONDS, [sample.cpu_seconds * 1000 for sample in samples]),
        figure("peak memory", Unit.MEBIBYTES, [sample.peak_bytes / MEBIBYTE for sample in samples]),
    ]


def _keys(server: S3Server) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": server.credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": server.credentials.secret_access_key,
    }


def _open(server: S3Server, bucket: Bucket) -> ObjectStore:
    config = {**bucket.location_config, "bucket": bucket.name}
    return open_object_store("aws", config, environ=_keys(server))


async def _upload(folder: Path, server: S3Server, bucket: Bucket) -> None:
    store = _open(server, bucket)
    try:
        for path in sorted((folder / "backups").rglob("*")):
            if path.is_file():
                await store.put(path.relative_to(folder).as_posix(), stream_file(path))
    finally:
        await store.close()


async def _read(server: S3Server, bucket: Bucket, key: str) -> float:
    """Get a file, unpack and hash it. Returns the milliseconds."""
    store = _open(server, bucket)
    try:
        start = time.perf_counter()
        async with store.get(key) as stream:
            data = b"".join([block async for block in stream])
        digest = hashlib.sha256()
        for chunk in inflate(BytesIO(data)):
            digest.update(chunk)
        return (time.perf_counter() - start) * 1000
    finally:
        await store.close()


class _Commands:
    """Runs commands on the bucket, and the floors."""

    def __init__(self, folder: Path, server: S3Server, bucket: Bucket, runs: int) -> None:
        self._folder = folder
        self._server = server
        self._bucket = bucket
        self._runs = runs
        settings = "&".join(f"{key}={value}" for key, value in bucket.location_config.items())
        self._environment = {
            "HOME": str(folder),
            "PINNACE_LOCATION": f"s3://{bucket.name}?{settings}",
            **_keys(server),
        }

    def run(self, *words: str, code: int = 0) -> list[Sample]:
        """The samples of a whole command."""
        return [self._run([PINNACE, *words], code) for _ in range(self._runs)]

    def reading(self, name: str) -> list[float]:
        """The milliseconds of getting a file of a backup, unpacking and hashing it."""
        key = f"backups/{name}"
        return [asyncio.run(_read(self._server, self._bucket, key)) for _ in range(self._runs)]

    def _run(self, command: Sequence[str | Path], code: int) -> Sample:
        return run(
            command,
            environment=self._environment,
            folder=self._folder,
            deadline_seconds=DEADLINE_SECONDS,
            code=code,
        )

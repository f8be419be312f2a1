"""What looking into backups costs: `python -m bench browse`.

Two tarballs of generated objects, as the API server stores them, are written with and without an index and
put into an S3 server; the second differs from the first in a few objects. Then the commands are measured as
whole processes: `backup ls`, `backup show` of one object, `backup diff` of the two, and `backup verify`, the
last against reading and hashing the tarball.
"""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from bench.figures import Figure, Rule, Series, Target, Unit
from bench.generate import Generator
from bench.measure import run
from bench.scenarios import PINNACE
from hack.cluster.s3 import Bucket, S3Server
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import ArchiveWriter
from pinnace.storage.interface import stream_file
from pinnace.storage.open import open_object_store

TIME_TARGET: Final = Target(first=1.08, aim=1.05)
SIZE_TARGET: Final = Target(first=0.10, aim=0.10)
DIFF_TARGET: Final = Target(first=3.0, aim=2.0)
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
    async with ArchiveWriter(tarball, clock=lambda: NOW, index=index) as writer:
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
    """Measure all of it; needs no cluster."""
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
        objects = list(stored_objects(generator, second=name == "b2"))
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
    tarball, index = root / "b1/b1.tar.gz", root / "b1/b1-pinnace-index.json.gz"
    say("looking into them")
    commands.series("backup", "ls", "b1", "--summary")  # compiles Python's bytecode
    show = commands.series("backup", "show", "b1", f"{wanted[0]}/{wanted[2]}", "-n", wanted[1])
    floor_index = [_hashing(index) for _ in range(runs)]
    floor_tarball = [_hashing(tarball) for _ in range(runs)]
    return [
        Figure(
            name="archive with index, CPU",
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
        Figure(
            name="backup ls --summary, S3",
            unit=Unit.SECONDS,
            rule=Rule.ADDED,
            ours=commands.series("backup", "ls", "b1", "--summary"),
            floors=[Series(name="reading the index", values=floor_index)],
        ),
        Figure(name="backup show of one object, S3", unit=Unit.SECONDS, rule=Rule.ALONE, ours=show),
        Figure(
            name="backup diff of two backups, S3",
            unit=Unit.SECONDS,
            rule=Rule.ALONE,
            ours=commands.series("backup", "diff", "b1", "b2", "--name-only", code=1),
            target=DIFF_TARGET,
        ),
        Figure(
            name="backup verify, S3",
            unit=Unit.SECONDS,
            rule=Rule.RATIO,
            ours=commands.series("backup", "verify", "b1"),
            floors=[Series(name="reading and hashing the tarball", values=floor_tarball)],
        ),
    ]


def _keys(server: S3Server) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": server.credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": server.credentials.secret_key,
    }


async def _upload(folder: Path, server: S3Server, bucket: Bucket) -> None:
    config = {**bucket.location_config, "bucket": bucket.name}
    environ = _keys(server)
    store = open_object_store("aws", config, environ=environ)
    try:
        for path in sorted((folder / "backups").rglob("*")):
            if path.is_file():
                await store.put(path.relative_to(folder).as_posix(), stream_file(path))
    finally:
        await store.close()


def _hashing(path: Path) -> float:
    start = time.perf_counter()
    hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
    return time.perf_counter() - start


class _Commands:
    """Runs commands on the bucket."""

    def __init__(self, folder: Path, server: S3Server, bucket: Bucket, runs: int) -> None:
        self._folder = folder
        self._runs = runs
        settings = "&".join(f"{key}={value}" for key, value in bucket.location_config.items())
        self._environment = {
            "HOME": str(folder),
            "PINNACE_LOCATION": f"s3://{bucket.name}?{settings}",
            **_keys(server),
        }

    def series(self, *words: str, code: int = 0) -> Series:
        """The seconds of a whole command."""
        line: list[str | Path] = [PINNACE, *words]
        if code:  # a difference is no failure here
            line = ["sh", "-c", f'"$@"; test $? = {code}', "sh", *line]
        samples = [
            run(line, environment=self._environment, folder=self._folder, deadline_seconds=DEADLINE_SECONDS)
            for _ in range(self._runs)
        ]
        return Series(name=" ".join(words[:2]), values=[sample.wall_seconds for sample in samples])

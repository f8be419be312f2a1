"""The cost of encryption: `python -m bench encryption`.

The files of a backup, with a tarball as large as that of 100,000 objects, are put into an S3 server and read
from there, in turn plain and encrypted, and in turn the one or the other first. The upload is the part of a
backup that encrypts; what it adds to a whole backup stands in the scenario backup. What counts of it is the
processor's time in this process: the clock's has the server in it and is, beside other work, several times as
uncertain as what is looked for. The reads are those of one object by the index, with a store that knows
nothing yet, as each command has it.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import MEBIBYTE, Figure, Rule, Series, Unit
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.layout import Layout
from pinnace.storage.open import open_object_store

TARBALL_BYTES: Final = 90 * MEBIBYTE
READ_BYTES: Final = 5_000
_KEY: Final = X25519Identity.generate()
_ENCRYPTION: Final = Encryption(
    recipients=parse_recipients(str(_KEY.recipient)),
    identities=Identities.parse(_KEY.secret_text().encode()),
)


def measure_encryption(folder: Path, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Run the scenario; needs no cluster."""
    folder.mkdir()
    tarball = folder / "tarball"
    tarball.write_bytes(os.urandom(TARBALL_BYTES))
    server = S3Server(folder / "s3")
    server.start()
    say(f"storing and reading {TARBALL_BYTES // MEBIBYTE} MiB, plain and encrypted")
    try:
        place = _Place(server, server.create_bucket("bench"), tarball)
        stored: dict[bool, list[_Times]] = {False: [], True: []}
        read: dict[bool, list[float]] = {False: [], True: []}
        for number in range(runs + 1):
            for sealed in (False, True) if number % 2 else (True, False):
                name = f"{'sealed' if sealed else 'plain'}-{number}"
                times = asyncio.run(place.stored(name, sealed)), asyncio.run(place.read(name, sealed))
                if number:  # the first loads libraries
                    stored[sealed].append(times[0])
                    read[sealed].append(times[1])
    finally:
        server.remove()
    return [
        Figure(
            name="storing an encrypted backup, S3, processor",
            unit=Unit.SECONDS,
            rule=Rule.RATIO,
            ours=Series(name="encrypted", values=[each.processor for each in stored[True]]),
            floors=[Series(name="plain", values=[each.processor for each in stored[False]])],
        ),
        Figure(
            name="storing an encrypted backup, S3, clock",
            unit=Unit.SECONDS,
            rule=Rule.RATIO,
            ours=Series(name="encrypted", values=[each.clock for each in stored[True]]),
            floors=[Series(name="plain", values=[each.clock for each in stored[False]])],
        ),
        Figure(
            name=f"reading {READ_BYTES:,} bytes of an encrypted tarball, S3",
            unit=Unit.MILLISECONDS,
            rule=Rule.ADDED,
            ours=Series(name="encrypted", values=read[True]),
            floors=[Series(name="plain", values=read[False])],
        ),
    ]


class _Times(NamedTuple):
    """Seconds that a run took on the clock, and of the processor."""

    clock: float
    processor: float


class _Place:
    """The bucket."""

    def __init__(self, server: S3Server, bucket: Bucket, tarball: Path) -> None:
        self._tarball = tarball
        self._config = {**bucket.location_config, "bucket": bucket.name}
        self._environ = {
            "AWS_ACCESS_KEY_ID": server.credentials.access_key_id,
            "AWS_SECRET_ACCESS_KEY": server.credentials.secret_access_key,
        }

    def _open(self, sealed: bool) -> BackupStore:
        store = open_object_store("aws", self._config, environ=self._environ)
        return BackupStore(store, Layout(""), location="bench").encrypted(
            _ENCRYPTION if sealed else Encryption()
        )

    async def stored(self, name: str, sealed: bool) -> "_Times":
        """Store a backup."""
        metadata = encode_metadata(Backup(metadata=ObjectMeta(name=name, namespace="velero")))
        files = BackupFiles(name=name, metadata=metadata, contents=self._tarball)
        async with self._open(sealed) as store:
            clock, processor = time.perf_counter(), time.process_time()
            await store.put_backup(files)
            return _Times(time.perf_counter() - clock, time.process_time() - processor)

    async def read(self, name: str, sealed: bool) -> float:
        """Read a part out of the middle of the tarball. Returns the milliseconds."""
        async with self._open(sealed) as store:
            start = time.perf_counter()
            async with store.read_range("BackupContents", name, TARBALL_BYTES // 2, READ_BYTES) as stream:
                data = b"".join([block async for block in stream])
            assert len(data) == READ_BYTES, "the part came as a whole"
            return (time.perf_counter() - start) * 1000

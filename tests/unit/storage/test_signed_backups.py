"""Signed backups: what is signed, in which order, and what each attack on a bucket leads to."""

import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.client.interface import DownloadOptions
from pinnace.client.signed_files import Trusted, signed_file
from pinnace.doctor.findings import Level
from pinnace.doctor.locations import judge_probe, probe_store
from pinnace.notices.codes import Code
from pinnace.signing.envelope import MOST_ENVELOPE_BYTES, sign
from pinnace.signing.errors import SigningError
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, FinalFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.checked_files import SignatureRefused, as_signed
from pinnace.storage.encoding import compress
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.interface import ObjectStore
from pinnace.storage.layout import Layout
from pinnace.storage.manifest import ManifestFile, read_manifest
from pinnace.storage.own_settings import Signatures
from tests.support.clock import HurriedClock
from tests.support.stores.faulty_store import DyingStore

KEY, OTHER = Ed25519Signer.generate(), Ed25519Signer.generate()
SIGNING = Signatures(key=KEY, trusted=(KEY.public,))
READING = Signatures(trusted=(OTHER.public, KEY.public))
REQUIRED_SIGNING = Signatures(key=KEY, trusted=(KEY.public,), required=True)
REQUIRED = Signatures(trusted=(KEY.public,), required=True)
TARBALL = bytes(range(256)) * 8000  # of more than one block
MANIFEST = "-pinnace-manifest.json"


class Bucket:
    """A folder as a bucket, that an attacker writes to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = FilesystemStore(root / "store")

    def opened(self, signatures: Signatures | None, store: ObjectStore | None = None) -> BackupStore:
        opened = BackupStore(store or self.store, Layout(""), location="main")
        return opened.signed(signatures) if signatures is not None else opened

    def path(self, name: str, suffix: str) -> Path:
        file = suffix if suffix == "velero-backup.json" else f"{name}{suffix}"
        return self.root / "store" / "backups" / name / file

    def files(self, name: str, *, phase: str = "Completed", tarball: bytes = TARBALL) -> BackupFiles:
        contents, index, log = (self.root / f"{name}.{kind}" for kind in ("tar.gz", "index", "log"))
        contents.write_bytes(tarball)
        index.write_bytes(compress(b"{}"))
        log.write_bytes(compress(name.encode()))
        backup = Backup(metadata=ObjectMeta(name=name, namespace="velero", uid=f"uid-{name}"))
        backup.status = BackupStatus(phase=BackupPhase(phase))
        return BackupFiles(
            name=name,
            metadata=encode_metadata(backup),
            contents=contents,
            index=index,
            log=log,
            resource_list={"v1/Pod": [f"ns/{name}"]},
        )

    async def put(self, name: str, signatures: Signatures | None = SIGNING, **changes: Any) -> None:
        await self.opened(signatures).put_backup(self.files(name, **changes))

    def statement(self, name: str) -> Any:
        envelope = json.loads(self.path(name, MANIFEST).read_bytes())
        return json.loads(base64.b64decode(envelope["payload"]))


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path)


async def download(store: BackupStore, name: str, folder: Path) -> bytes:
    await store.download_contents(name, folder / "downloaded")
    return (folder / "downloaded").read_bytes()


async def test_the_manifest_has_every_file_of_the_backup_and_names_its_predecessor(bucket: Bucket) -> None:
    await bucket.put("b1")
    await bucket.put("b2")

    statement = bucket.statement("b2")
    stored = {path.name for path in bucket.path("b2", ".tar.gz").parent.iterdir()}
    assert {subject["name"] for subject in statement["subject"]} == stored - {f"b2{MANIFEST}"}
    assert statement["predicate"] | {"pinnace": ""} == {
        "backup": "b2",
        "backupUID": "uid-b2",
        "clusterUID": "",
        "completed": "",
        "errors": 0,
        "expires": "",
        "items": 0,
        "location": "main",
        "phase": "Completed",
        "pinnace": "",
        "predecessors": [
            {"backup": "b1", "sha256": (await manifest_digest(bucket, "b1"))},
        ],
        "started": "",
        "warnings": 0,
    }
    assert bucket.statement("b1")["predicate"]["predecessors"] == []


async def manifest_digest(bucket: Bucket, name: str) -> str:
    manifest = await bucket.opened(READING).manifest(name)
    assert manifest is not None
    return manifest.digest


async def test_backups_that_end_at_once_make_branches_that_the_next_one_joins(bucket: Bucket) -> None:
    await bucket.put("b1")
    newest = bucket.root / "store/metadata" / f"pinnace-newest-{KEY.public.id}.json"
    before = newest.read_bytes()
    await bucket.put("b2")
    beside = newest.read_bytes()
    newest.write_bytes(before)  # as b3 has read it, before b2 was noted
    store = bucket.opened(SIGNING)
    read = store._newest

    async def read_before_the_other_ended() -> Any:
        found = await read()
        newest.write_bytes(beside)
        return found

    store._newest = read_before_the_other_ended  # type: ignore[method-assign]
    await store.put_backup(bucket.files("b3"))
    await bucket.put("b4")

    names = [
        [link["backup"] for link in bucket.statement(name)["predicate"]["predecessors"]]
        for name in ("b2", "b3", "b4")
    ]
    assert names == [["b1"], ["b1"], ["b2", "b3"]]


async def test_without_a_key_nothing_is_signed(bucket: Bucket) -> None:
    await bucket.put("plain", signatures=READING)

    assert not bucket.path("plain", MANIFEST).exists()


async def test_an_unsigned_backup_is_not_written_where_it_could_not_be_read(bucket: Bucket) -> None:
    with pytest.raises(StoreConfigError, match="has no key to sign with"):
        await bucket.put("b1", signatures=REQUIRED)
    assert await bucket.store.list_keys("") == []


async def park(bucket: Bucket) -> tuple[BackupStore, Path]:
    """A backup that waits for operations, whose progress was stored since."""
    store, folder = bucket.opened(REQUIRED_SIGNING), bucket.root / "folder"
    folder.mkdir()
    files = replace(bucket.files("b1", phase="WaitingForPluginOperations"), item_operations=[{"spec": {}}])
    await store.parked().put_backup(files)
    await store.parked().put_item_operations("b1", [{"spec": {}, "status": {}}])
    return store, folder


def ended() -> Backup:
    return Backup(
        metadata=ObjectMeta(name="b1", namespace="velero", uid="uid-b1"),
        status=BackupStatus(phase=BackupPhase.COMPLETED),
    )


async def test_a_backup_that_waited_for_operations_is_signed_as_it_ends(bucket: Bucket) -> None:
    store, folder = await park(bucket)
    assert await store.parked().read_item_operations("b1")

    await store.finish_backup(FinalFiles(results={"errors": {}}), ended(), folder)

    await read_everything(bucket.opened(REQUIRED), "b1", bucket.root)
    assert await bucket.opened(REQUIRED).read_item_operations("b1")
    assert await bucket.opened(REQUIRED).read_backup_results("b1")


async def test_a_finalization_that_was_killed_between_any_two_writes_is_done_again_and_verifies(
    tmp_path: Path,
) -> None:
    for writes in range(60):
        bucket = Bucket(tmp_path / str(writes))
        bucket.root.mkdir()
        _, folder = await park(bucket)
        dying = bucket.opened(REQUIRED_SIGNING, DyingStore(bucket.store, writes, after_effect=True))
        try:
            await dying.finish_backup(FinalFiles(results={"errors": {}}), ended(), folder)
        except StorageError:
            is_done = False
        else:
            is_done = not await bucket.store.exists("backups/b1/b1-pinnace-writer.json")
        again = BackupStore(bucket.store, Layout(""), location="main", clock=HurriedClock())
        if not await again.exists("b1"):
            (folder / "again").mkdir()
            finishing = again.signed(REQUIRED_SIGNING)
            await finishing.finish_backup(FinalFiles(results={"errors": {}}), ended(), folder / "again")
        await read_everything(bucket.opened(REQUIRED), "b1", bucket.root)
        if is_done:
            assert writes > len(SIDE_FILES)
            return
    raise AssertionError("the finalization never ended")


@pytest.mark.parametrize("kind", ["changed", "removed", "added", "manifest-removed"])
async def test_what_was_changed_while_a_backup_waited_is_not_signed(bucket: Bucket, kind: str) -> None:
    store, folder = await park(bucket)
    path = bucket.path("b1", "velero-backup.json").parent / "pinnace-parked/b1-resource-list.json.gz"
    alter: dict[str, Callable[[], object]] = {
        "changed": lambda: flipped(path, -1),
        "removed": path.unlink,
        "added": lambda: (path.parent / "b1-results.gz").write_bytes(compress(b"{}")),
        "manifest-removed": (path.parent / f"b1{MANIFEST}").unlink,
    }
    alter[kind]()

    with pytest.raises(SignatureRefused):
        await store.finish_backup(FinalFiles(), ended(), folder)
    assert not await store.exists("b1")


@pytest.mark.parametrize("after_effect", [False, True])
async def test_killed_between_any_two_writes_there_is_no_backup_or_one_that_verifies(
    bucket: Bucket, after_effect: bool
) -> None:
    for writes in range(40):
        name, is_whole = f"b{writes}", True
        dying = DyingStore(bucket.store, writes, after_effect=after_effect)
        try:
            await bucket.opened(SIGNING, dying).put_backup(bucket.files(name))
        except StorageError:
            is_whole = False
        if is_whole or await bucket.store.exists(f"backups/{name}/velero-backup.json"):
            await read_everything(bucket.opened(REQUIRED), name, bucket.root)
        if is_whole:
            assert writes > len(SIDE_FILES)
            return
    raise AssertionError("no backup was ever made")


async def read_everything(store: BackupStore, name: str, folder: Path) -> None:
    await store.read_backup(name)
    await store.read_resource_list(name)
    await store.read_snapshots(name)
    await store.read_pod_volume_backups(name)
    for kind in (DownloadTargetKind.BACKUP_LOG, DownloadTargetKind.ITEM_INDEX):
        async with store.read_text(kind, name) as text:
            assert [block async for block in text]
    assert await download(store, name, folder) == TARBALL


def flipped(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def exchange(bucket: Bucket, suffix: str) -> None:
    one, other = bucket.path("b1", suffix), bucket.path("b2", suffix)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


async def resigned(bucket: Bucket) -> None:
    """The manifest, signed by somebody else."""
    path = bucket.path("b1", MANIFEST)
    payload = base64.b64decode(json.loads(path.read_bytes())["payload"])
    path.write_bytes(await sign(payload, Ed25519Signer.generate()))


def twice(bucket: Bucket) -> None:
    """A signed payload with a key twice: readers that take the first one differ from those of the last."""
    path = bucket.path("b1", MANIFEST)
    envelope = json.loads(path.read_bytes())
    payload = base64.b64decode(envelope["payload"]).replace(b"{", b'{"subject":[],', 1)
    path.write_bytes(json.dumps(envelope | {"payload": base64.b64encode(payload).decode()}).encode())


def overwritten(bucket: Bucket, content: bytes) -> None:
    bucket.path("b1", MANIFEST).write_bytes(content)


Attack = Callable[[Bucket], Awaitable[None] | None]
ON_THE_MANIFEST: dict[str, Attack] = {
    "signed-by-another-key": resigned,
    "of-another-backup": lambda bucket: exchange(bucket, MANIFEST),
    "payload-with-a-key-twice": twice,
    "huge": lambda bucket: overwritten(bucket, b" " * (MOST_ENVELOPE_BYTES + 1)),
    "deep": lambda bucket: overwritten(bucket, b"[" * 90_000),
    "empty": lambda bucket: overwritten(bucket, b""),
}
READERS: dict[str, Callable[[BackupStore, Path], Awaitable[Any]]] = {
    "sync": lambda store, _: store.read_backup("b1"),
    "restore": lambda store, folder: download(store, "b1", folder),
    "volumes": lambda store, _: store.read_pod_volume_backups("b1"),
    "list": lambda store, _: store.read_resource_list("b1"),
    "url": lambda store, _: store.signed_url(DownloadTargetKind.BACKUP_CONTENTS, "b1"),
    "range": lambda store, _: part(store),
    "log": lambda store, _: log(store),
}


async def part(store: BackupStore) -> bytes:
    async with store.read_range(DownloadTargetKind.BACKUP_CONTENTS, "b1", 1, 2) as stream:
        return b"".join([block async for block in stream])


async def log(store: BackupStore) -> bytes:
    async with store.read_text(DownloadTargetKind.BACKUP_LOG, "b1") as text:
        return b"".join([block async for block in text])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("attack", ON_THE_MANIFEST)
async def test_a_manifest_that_is_not_ours_refuses_the_backup_to_every_reader(
    bucket: Bucket, attack: str, reader: str
) -> None:
    await bucket.put("b1")
    await bucket.put("b2")
    await READERS[reader](bucket.opened(REQUIRED), bucket.root)
    if (waiting := ON_THE_MANIFEST[attack](bucket)) is not None:
        await waiting

    for signatures in (READING, REQUIRED):
        with pytest.raises(SignatureRefused, match="manifest of backup 'b1'"):
            await READERS[reader](bucket.opened(signatures), bucket.root)


@pytest.mark.parametrize("reader", READERS)
async def test_a_backup_without_a_manifest_is_read_unless_a_signature_is_required(
    bucket: Bucket, reader: str
) -> None:
    await bucket.put("b1", signatures=None)

    await READERS[reader](bucket.opened(READING), bucket.root)
    with pytest.raises(SignatureRefused, match="is not signed"):
        await READERS[reader](bucket.opened(REQUIRED), bucket.root)


@pytest.mark.parametrize("attack", ON_THE_MANIFEST)
async def test_only_a_whole_manifest_of_an_unknown_key_comes_with_the_advice_to_trust_that_key(
    bucket: Bucket, attack: str
) -> None:
    await bucket.put("b1")
    await bucket.put("b2")
    if (waiting := ON_THE_MANIFEST[attack](bucket)) is not None:
        await waiting

    with pytest.raises(SignatureRefused) as caught:
        await bucket.opened(REQUIRED).read_backup("b1")

    is_of_an_unknown_key = attack in ("signed-by-another-key", "payload-with-a-key-twice")
    assert ("signing.trustedKeys" in str(caught.value)) == is_of_an_unknown_key
    assert "restore an older one" in str(caught.value)


async def test_every_byte_of_a_manifest_counts(bucket: Bucket) -> None:
    await bucket.put("b1")
    whole = bucket.path("b1", MANIFEST).read_bytes()
    hint = range(whole.index(b'"keyid"'), whole.index(b'"sig"'))  # signed by nobody, and not relied on
    assert read_manifest(whole, READING.trusted, "b1").files
    for position in set(range(len(whole))) - set(hint):
        changed = bytearray(whole)
        changed[position] ^= 1
        with pytest.raises(SigningError):
            read_manifest(bytes(changed), READING.trusted, "b1")


SIDE_FILES = {
    "velero-backup.json": "sync",
    ".tar.gz": "restore",
    "-podvolumebackups.json.gz": "volumes",
    "-resource-list.json.gz": "list",
    "-logs.gz": "log",
}


@pytest.mark.parametrize("suffix", SIDE_FILES)
@pytest.mark.parametrize("kind", ["changed", "exchanged", "removed", "longer", "empty"])
async def test_a_file_that_is_not_as_it_was_signed_is_named(bucket: Bucket, suffix: str, kind: str) -> None:
    await bucket.put("b1")
    await bucket.put("b2", tarball=TARBALL[1:] + b"x")
    path = bucket.path("b1", suffix)
    if kind == "exchanged" and path.read_bytes() == bucket.path("b2", suffix).read_bytes():
        return  # nothing was changed
    alter: dict[str, Callable[[], object]] = {
        "changed": lambda: flipped(path, -1),
        "exchanged": lambda: exchange(bucket, suffix),
        "removed": path.unlink,
        "longer": lambda: path.write_bytes(path.read_bytes() + b" "),
        "empty": lambda: path.write_bytes(b""),
    }
    alter[kind]()

    with pytest.raises(
        SignatureRefused, match="removed" if kind == "removed" else "not what was signed"
    ) as caught:
        await READERS[SIDE_FILES[suffix]](bucket.opened(READING), bucket.root)
    assert caught.value.key.endswith(suffix)
    assert not (bucket.root / "downloaded").exists()


async def test_a_file_that_was_added_is_named_and_a_missing_one_that_nobody_signed_is_none(
    bucket: Bucket,
) -> None:
    await bucket.put("b1")
    assert not await bucket.opened(READING).read_backup_results("b1")

    bucket.path("b1", "-results.gz").write_bytes(compress(b"{}"))

    with pytest.raises(SignatureRefused, match="added"):
        await bucket.opened(READING).read_backup_results("b1")


async def test_a_url_of_a_file_that_a_signed_backup_lacks_trusts_none_that_is_added_later(
    bucket: Bucket,
) -> None:
    await bucket.put("b1")
    kind = DownloadTargetKind.BACKUP_VOLUME_INFOS

    url = await bucket.opened(REQUIRED).signed_url(kind, "b1")
    bucket.path("b1", "-volumeinfo.json.gz").write_bytes(b"")
    bare, expected = ManifestFile.of_url(url)

    assert bare == bucket.path("b1", "-volumeinfo.json.gz").as_uri()
    assert expected is not None
    with pytest.raises(SignatureRefused, match="added after the backup was signed"):
        async with as_signed(
            "volumes",
            signed_file(bare, Trusted(DownloadOptions(timeout_seconds=10), "")),
            expected,
            at_once=False,
        ):
            pytest.fail("an added file was handed out")


async def test_a_part_of_a_tarball_of_another_size_is_refused(bucket: Bucket) -> None:
    await bucket.put("b1")
    path = bucket.path("b1", ".tar.gz")
    path.write_bytes(path.read_bytes() + b"x")

    with pytest.raises(SignatureRefused, match="not what was signed"):
        await part(bucket.opened(READING))


async def test_a_backup_that_is_not_there_is_not_called_unsigned(bucket: Bucket) -> None:
    with pytest.raises(ObjectNotFound):
        await bucket.opened(REQUIRED).read_backup("b1")


async def test_the_doctor_names_backups_that_are_refused_for_no_manifest(bucket: Bucket) -> None:
    await bucket.put("b1")
    await bucket.put("forged", signatures=None)
    (bucket.path("b1", "").parent.parent / "unfinished").mkdir()

    probe = await probe_store(bucket.opened(REQUIRED))
    finding = judge_probe("main", probe)

    assert (finding.level, finding.code) == (Level.WARNING, Code.BACKUPS_NOT_SIGNED)
    assert finding.text == "backups in main are not signed, and refused: forged"
    assert (await probe_store(bucket.opened(READING))).unsigned == ()


async def test_an_index_is_not_added_to_a_signed_backup(bucket: Bucket) -> None:
    await bucket.put("b1")

    with pytest.raises(StorageError, match="is signed"):
        await bucket.opened(None).put_index("b1", bucket.root / "b1.index")

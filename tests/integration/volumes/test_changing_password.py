"""Real restic and kopia: a change of the password, cut off at every write, never locks anybody out."""

import asyncio
import base64
import os
from pathlib import Path

import pytest

from hack.cluster import binaries
from pinnace.aio.blocking import in_thread
from pinnace.api.codec import decode
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.cli.main import run
from pinnace.operations.changing_password import (
    KeyedRepositories,
    StoredPasswords,
    change_given,
    change_stored,
    repositories_in,
)
from pinnace.storage.interface import ObjectStore
from pinnace.storage.open import open_backup_store, open_object_store
from pinnace.volumes.kopia import format_blobs
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.errors import UploaderError, WrongPassword
from pinnace.volumes.uploader.interface import Source, Target
from pinnace.volumes.uploader.passwords import LEGACY_FIRST
from pinnace.volumes.uploaders import Uploaders
from tests.support.stores.faulty_store import DyingStore
from tests.support.volumes.volume_labs import PASSWORD, TAGS, Lab
from tests.unit.controllers.fakes import NAMESPACE

OLD, NEW = PASSWORD.encode(), b"the next password"
KOPIA = Repository(location="default", namespace="shop", uploader="kopia")


@pytest.fixture(scope="session")
def kopia_program() -> str:
    return str(binaries.locate(binaries.UPLOADER)["kopia"])


class Passwords:
    """The repositories of a lab, opened with one password or another."""

    def __init__(self, lab: Lab, kopia: str) -> None:
        self.lab = lab
        self.kopia = kopia

    def opened(self, password: bytes) -> Uploaders:
        lab = self.lab
        accesses = AccessProvider(
            lab.cluster.client, NAMESPACE, lab.work, inherited=lab.accesses.inherited, password=password
        )
        return Uploaders({"restic": Restic(accesses), "kopia": Kopia(accesses, program=self.kopia)})

    def as_server(self) -> Uploaders:
        """The uploaders of a server and its agents, by what the Secret has."""
        accesses = self.lab.accesses
        return Uploaders({"restic": Restic(accesses), "kopia": Kopia(accesses, program=self.kopia)})

    async def opening(self, repository: Repository) -> set[bytes]:
        return {each for each in (OLD, NEW) if await self.opened(each).opens(repository)}

    async def find(self) -> KeyedRepositories:
        location = decode(BackupStorageLocation, self.lab.cluster.stored("backupstoragelocations", "default"))
        store = open_backup_store(location)
        async with store:
            return KeyedRepositories(self.opened, await repositories_in(location, store))

    def in_secret(self) -> dict[str, bytes]:
        data = self.lab.cluster.stored("secrets", LEGACY_FIRST[0])["data"]
        return {name: base64.b64decode(value) for name, value in data.items()}


@pytest.fixture
def passwords(folder_lab: Lab, kopia_program: str, tmp_path: Path) -> Passwords:
    (tmp_path / "bucket/site").mkdir(parents=True)
    return Passwords(folder_lab, kopia_program)


async def saved(passwords: Passwords, repository: Repository) -> str:
    """A snapshot in a new repository."""
    (passwords.lab.volume / "file").write_text("content")
    uploaders = passwords.as_server()
    await uploaders.init(repository)
    source = Source(path=passwords.lab.volume, tags=TAGS, name="v")
    return (await uploaders.save(repository, source)).snapshot


async def assert_restores(passwords: Passwords, repository: Repository, snapshot: str, folder: Path) -> None:
    await in_thread(folder.mkdir)
    await passwords.as_server().fill(repository, snapshot, Target(path=folder))
    assert (folder / "file").read_text() == "content"


@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_a_server_works_while_the_secret_has_two_passwords(
    passwords: Passwords, uploader: str, tmp_path: Path
) -> None:
    repository = KOPIA if uploader == "kopia" else passwords.lab.repository
    snapshot = await saved(passwords, repository)
    stored = StoredPasswords(passwords.lab.cluster.client, NAMESPACE, LEGACY_FIRST)
    source = Source(path=passwords.lab.volume, tags=TAGS, name="v")
    await stored.stage(NEW)
    await (await passwords.find()).add(NEW, [OLD])
    await assert_restores(passwords, repository, snapshot, tmp_path / "staged")
    assert (await passwords.as_server().save(repository, source)).snapshot

    await stored.switch(NEW)
    assert passwords.in_secret() == {"repository-password": NEW, "former-repository-password": OLD}
    await assert_restores(passwords, repository, snapshot, tmp_path / "switched")

    # The same call completes what was interrupted, with and without the password.
    outcome = await change_stored(stored, None, passwords.find, print)
    assert not outcome.failed
    assert passwords.in_secret() == {"repository-password": NEW}
    assert await passwords.opening(repository) == {NEW}


async def test_kopia_opens_with_one_of_both_passwords_after_every_write(
    passwords: Passwords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await saved(passwords, KOPIA)
    folder = tmp_path / "bucket/site/kopia/shop"
    real, before = open_object_store, {path: path.read_bytes() for path in folder.iterdir()}
    ends = []
    writes = 5
    for lifetime in range(writes + 2):
        for path, data in before.items():
            path.write_bytes(data)

        def dying(*words: object, lifetime: int = lifetime, **options: object) -> ObjectStore:
            return DyingStore(real(*words, **options), lifetime, after_effect=True)  # type: ignore[arg-type]

        monkeypatch.setattr(format_blobs, "open_object_store", dying)
        try:
            await passwords.opened(OLD).add_password(KOPIA, NEW)
            ends.append("done")
        except UploaderError:
            ends.append("cut")
        monkeypatch.setattr(format_blobs, "open_object_store", real)

        (opening,) = await passwords.opening(KOPIA)
        await passwords.opened(opening).add_password(KOPIA, NEW)

        assert await passwords.opening(KOPIA) == {NEW}
        assert (folder / "kopia.blobcfg.f").exists()
        assert not (folder / "pinnace.password-change.f").exists()
        assert snapshot in await passwords.opened(NEW).snapshot_ids(KOPIA)
        for path in set(folder.iterdir()) - before.keys():
            path.unlink()
    assert "done" in ends
    assert ends.count("cut") == writes + 1


async def test_a_change_that_ended_early_keeps_the_settings_of_the_blobs(
    passwords: Passwords, tmp_path: Path
) -> None:
    await saved(passwords, KOPIA)
    folder = tmp_path / "bucket/site/kopia/shop"
    config, format_blob = (folder / name for name in ("kopia.blobcfg.f", "kopia.repository.f"))
    old = format_blobs.FormatBlobs(repository=format_blob.read_bytes(), blob_config=config.read_bytes())
    new = format_blobs.FormatBlobs(repository=b"other", blob_config=b"other")
    (folder / "pinnace.password-change.f").write_bytes(format_blobs._note(old, new))
    config.unlink()

    await passwords.opened(OLD).add_password(KOPIA, OLD)

    assert config.read_bytes() == old.blob_config


async def test_a_repository_of_another_password_is_named_and_left(
    passwords: Passwords, tmp_path: Path
) -> None:
    await passwords.opened(b"of somebody else").init(KOPIA)
    outcome = await change_given(await passwords.find(), OLD, NEW, print)
    assert list(outcome.foreign) == ["kopia repository of namespace shop in location default"]
    assert not outcome.failed
    await passwords.opened(b"of somebody else").connect(KOPIA)


async def test_the_public_password_does_not_open_a_repository_afterwards(passwords: Passwords) -> None:
    public, restic = b"static-passw0rd", passwords.lab.repository
    for repository in (KOPIA, restic):
        await passwords.opened(public).init(repository)
    await passwords.opened(public).add_password(restic, OLD)

    outcome = await change_given(await passwords.find(), OLD, NEW, print)

    assert not outcome.failed
    for repository in (KOPIA, restic):
        assert await passwords.opening(repository) == {NEW}
        assert not await passwords.opened(public).opens(repository)
        with pytest.raises(WrongPassword):
            await passwords.opened(b"never given").connect(repository)


@pytest.fixture(name="with_programs")
def _with_programs(kopia_program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{Path(kopia_program).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for name in ("RESTIC_PASSWORD", "RESTIC_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("with_programs")
def test_without_a_server_the_password_goes_from_one_file_to_the_other(
    passwords: Passwords, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    restic = passwords.lab.repository
    for repository in (KOPIA, restic):
        asyncio.run(passwords.opened(OLD).init(repository))
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(OLD)
    new.write_bytes(NEW + b"\n")
    command = ["--location", str(tmp_path / "bucket/site"), "repo", "change-password"]
    files = ["--restic-password-file", str(old), "--new-password-file", str(new)]

    assert run([*command, *files]) == 0
    said = "".join(capsys.readouterr())
    assert "kopia repository of namespace shop" in said
    assert "restic repository of namespace shop" in said
    assert not any(secret.decode() in said for secret in (OLD, NEW))
    for repository in (KOPIA, restic):
        assert asyncio.run(passwords.opening(repository)) == {NEW}
    assert run([*command, *files]) == 0  # again: nothing is left to do

    assert run([*command, "--restic-password-file", str(old)]) == 2
    assert "--new-password-file is needed" in capsys.readouterr().err
    new.write_text("static-passw0rd")
    assert run([*command, *files]) == 1
    assert "Velero's default, which everybody knows" in capsys.readouterr().err

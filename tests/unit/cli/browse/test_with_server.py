"""Looking into backups through a server: signed URLs, and servers that know no index."""

from pathlib import Path

import pytest

from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.main import run
from pinnace.client.server import OfferedFile, ServerBackend
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Invalid
from pinnace.kube.resources import BACKUPS
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.own_settings import Signatures
from tests.support.stores.indexed_backups import config_map, store
from tests.support.stores.signing import sign_stored
from tests.unit.cli.cluster import ServedCluster, connected

Printed = pytest.CaptureFixture[str]

_FILES = {
    DownloadTargetKind.BACKUP_CONTENTS: "b1.tar.gz",
    DownloadTargetKind.ITEM_INDEX: "b1-pinnace-index.json.gz",
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return store(tmp_path / "location", "b1", [config_map("a", x="1"), config_map("b")])


@pytest.fixture
def asked(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of files whose URL the server was asked for."""
    cluster: ServedCluster = connected(monkeypatch, tmp_path)
    cluster.add(BACKUPS, "b1")
    kinds: list[str] = []

    async def url(self: ServerBackend, kind: DownloadTargetKind, name: str) -> OfferedFile:
        kinds.append(kind)
        return OfferedFile((directory / _FILES[kind]).as_uri())

    monkeypatch.setattr(ServerBackend, "_requested", url)
    return kinds


def test_items_come_from_the_index_and_an_object_from_a_part_of_the_tarball(
    asked: list[str], capsys: Printed
) -> None:
    assert run(["backup", "ls", "b1", "-o", "name"]) == 0
    assert capsys.readouterr().out.split() == ["configmaps/a", "configmaps/b"]
    assert run(["backup", "show", "b1", "cm/a"]) == 0
    assert "x: '1'" in capsys.readouterr().out
    assert asked == ["BackupItemIndex", "BackupItemIndex", "BackupContents"]


@pytest.mark.found("DOC9")
def test_a_server_that_refuses_the_kind_is_asked_for_the_tarball(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, directory: Path, capsys: Printed
) -> None:
    async def url(self: ServerBackend, kind: DownloadTargetKind, name: str) -> OfferedFile:
        if kind == DownloadTargetKind.ITEM_INDEX:
            raise Invalid(422, reason="Invalid", message="Unsupported value")
        return OfferedFile((directory / _FILES[kind]).as_uri())

    monkeypatch.setattr(ServerBackend, "_requested", url)
    assert run(["backup", "show", "b1", "cm/a"]) == 0
    out, err = capsys.readouterr()
    assert "x: '1'" in out
    assert "has no index" not in err
    assert "does not know the index; `pinnace install --crds-only --apply` adds that" in err


def test_the_line_about_a_missing_index_names_the_command_that_can_write_it(
    asked: list[str], directory: Path, capsys: Printed
) -> None:
    (directory / _FILES[DownloadTargetKind.ITEM_INDEX]).unlink()

    assert run(["backup", "show", "b1", "cm/a"]) == 0

    out, err = capsys.readouterr()
    assert "x: '1'" in out
    assert err.endswith(
        "has no index, its tarball is read from beginning to end (`pinnace backup index b1 "
        "--location URL` writes one).\n"
    )


def test_an_index_cannot_be_written_through_a_server(asked: list[str], capsys: Printed) -> None:
    assert run(["backup", "index", "b1"]) == 1
    assert "give it with --location" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--no-such-flag"], ["b1", "b2", "b3"], []], ids=["flag", "too many", "none"]
)
def test_wrong_usage_of_diff_ends_with_2_as_1_means_different(
    words: list[str], asked: list[str], capsys: Printed
) -> None:
    assert run(["backup", "diff", *words]) == 2
    assert run(["backup", "ls", "b1", "--no-such-flag"]) == 1
    assert asked == []


def test_a_comparison_with_the_cluster_reads_the_index_once_over_the_connection_to_the_server(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    """Filters need the index too: for what they admit, and for names that no object has."""
    opened: list[ServedCluster] = []

    async def enter(self: ServedCluster) -> ServedCluster:
        opened.append(self)
        return self

    async def nothing_is_served(_client: object) -> Discovery:
        return Discovery([])

    monkeypatch.setattr(ServedCluster, "__aenter__", enter)
    monkeypatch.setattr(Discovery, "load", nothing_is_served)

    assert run(["backup", "diff", "b1", "--cluster", "--include-resources", "cm"]) == 1

    assert capsys.readouterr().out.splitlines()[-1] == "0 added, 2 removed, 0 changed"
    assert (asked, len(opened)) == (["BackupItemIndex"], 1)


@pytest.mark.parametrize("altered", ["", "b1.tar.gz", "b1-pinnace-index.json.gz"])
def test_what_a_server_says_was_signed_is_compared_with_what_its_url_gives(
    asked: list[str],
    directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Printed,
    altered: str,
) -> None:
    key = Ed25519Signer.generate()
    sign_stored(directory, key)
    location = BackupStore(FilesystemStore(directory.parent.parent), Layout(""), location="default")

    async def url(self: ServerBackend, kind: DownloadTargetKind, name: str) -> OfferedFile:
        signed = location.signed(Signatures(trusted=(key.public,)))
        return OfferedFile(await signed.signed_url(kind, name))

    monkeypatch.setattr(ServerBackend, "_requested", url)
    if altered:
        data = bytearray((directory / altered).read_bytes())
        data[len(data) // 2] ^= 1
        (directory / altered).write_bytes(data)

    download = run(["backup", "download", "b1", "-o", str(tmp_path / "out.tar.gz")])
    downloaded = capsys.readouterr().err
    listing = run(["backup", "ls", "b1", "-o", "name"])
    listed = capsys.readouterr()

    assert download == (1 if altered == "b1.tar.gz" else 0)
    assert ("not what was signed" in downloaded) == (altered == "b1.tar.gz")
    assert listing == (1 if "index" in altered else 0), listed
    assert ("not what was signed" in listed.err) == ("index" in altered)

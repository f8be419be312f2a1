"""Attacks on a signed backup in a location, and what each command that reads it does."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace.cli.main import run
from pinnace.signing.keys import Ed25519Signer
from tests.support.stores.indexed_backups import config_map, secret, store
from tests.support.stores.signing import sign_stored
from tests.support.stores.verifying import checks

Printed = pytest.CaptureFixture[str]
KEY, OTHER = Ed25519Signer.generate(), Ed25519Signer.generate()
CONTENTS, INDEX, METADATA = "b1.tar.gz", "b1-pinnace-index.json.gz", "velero-backup.json"
MANIFEST = "b1-pinnace-manifest.json"


@pytest.fixture
def directory(location: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A signed backup beside another one, whose key is trusted and required."""
    monkeypatch.setenv("PINNACE_TRUSTED_KEYS", f"{OTHER.public} {KEY.public}")
    monkeypatch.setenv("PINNACE_REQUIRE_SIGNATURE", "true")
    for number, name in enumerate(("b2", "b1")):
        made = store(
            location, name, [config_map("a", x=str(number)), config_map("b"), secret("c")], day=number
        )
        (made / f"{name}-volumesnapshots.json.gz").write_bytes(gzip.compress(b"null\n", mtime=0))
        (made / f"{name}-logs.gz").write_bytes(gzip.compress(f"{name}\n".encode(), mtime=0))
        sign_stored(made, KEY)
    return made


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replay(directory: Path) -> None:
    """All files of the other backup under this one's name, as a copy of an older one would be."""
    for path in (directory.parent / "b2").iterdir():
        shutil.copy(path, directory / path.name.replace("b2", "b1", 1))


def forge(directory: Path) -> None:
    """A backup that is sound, and signed by somebody else."""
    (directory / MANIFEST).unlink()
    sign_stored(directory, Ed25519Signer.generate())


def take(name: str) -> Callable[[Path], object]:
    return lambda directory: shutil.copy(directory.parent / "b2" / name.replace("b1", "b2"), directory / name)


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "contents-altered": (lambda d: flip(d / CONTENTS), "not what was signed"),
    "contents-of-another": (take(CONTENTS), "not what was signed"),
    "contents-removed": (lambda d: (d / CONTENTS).unlink(), "was removed"),
    "metadata-altered": (lambda d: flip(d / METADATA), "not what was signed"),
    "metadata-of-another": (take(METADATA), "not what was signed"),
    "index-altered": (lambda d: flip(d / INDEX), "not what was signed"),
    "manifest-altered": (lambda d: flip(d / MANIFEST), "the manifest of backup 'b1'"),
    "manifest-of-another": (take(MANIFEST), "manifest of another backup, 'b2'"),
    "manifest-removed": (lambda d: (d / MANIFEST).unlink(), "is not signed"),
    "whole-backup-of-another": (replay, "manifest of another backup, 'b2'"),
    "forged": (forge, "no trusted key has signed it"),
    "file-added": (lambda d: (d / "b1-results.gz").write_bytes(gzip.compress(b"{}")), "was added"),
}
READS: dict[str, tuple[str, ...]] = {
    # What each command reads; an attack on something else is none of its business.
    "verify": ("contents", "metadata", "index", "manifest", "whole", "forged", "file"),
    "download": ("contents", "metadata", "manifest", "whole", "forged"),
    "show": ("contents", "metadata", "index", "manifest", "whole", "forged"),
    "ls": ("metadata", "index", "manifest", "whole", "forged"),
    "describe": ("metadata", "manifest", "whole", "forged"),
    "logs": ("metadata", "manifest", "whole", "forged"),
}
COMMANDS = {
    "verify": ["backup", "verify", "b1"],
    "download": ["backup", "download", "b1", "-o", "{folder}/out.tar.gz"],
    "show": ["backup", "show", "b1", "configmap/a", "-n", "shop"],
    "ls": ["backup", "ls", "b1"],
    "describe": ["backup", "describe", "b1"],
    "logs": ["backup", "logs", "b1"],
}


def called(command: str, folder: Path) -> int:
    return run([word.format(folder=folder) for word in COMMANDS[command]])


def test_a_signed_backup_is_read_by_every_command(directory: Path, tmp_path: Path, capsys: Printed) -> None:
    for command in COMMANDS:
        assert called(command, tmp_path) == 0, (command, capsys.readouterr())
    capsys.readouterr()
    _, found = checks(capsys, "b1")
    assert found["signature"] == ("ok", f"6 files signed by {KEY.public.id[:16]}")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_as_it_was_signed_is_refused_and_named(
    directory: Path, tmp_path: Path, capsys: Printed, command: str, attack: str
) -> None:
    capsys.readouterr()
    alter, said = ATTACKS[attack]
    alter(directory)

    code = called(command, tmp_path)

    out, err = capsys.readouterr()
    if attack.partition("-")[0] in READS[command]:
        assert code == 1, (out, err)
        assert said in " ".join((out + err).split()), (out, err)
        assert not (tmp_path / "out.tar.gz").exists()
    else:
        assert code == 0, (out, err)


def test_without_the_requirement_a_backup_without_a_manifest_is_unsigned_and_sound(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.delenv("PINNACE_REQUIRE_SIGNATURE")
    (directory / MANIFEST).unlink()

    code, found = checks(capsys, "b1")

    assert (code, found["signature"]) == (0, ("missing", "unsigned"))

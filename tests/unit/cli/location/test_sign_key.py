"""`backup-location sign-key`: where both halves of a key go."""

import base64
import stat
from pathlib import Path

import pytest

from pinnace.cli.main import run
from pinnace.kube.resources import SECRETS
from pinnace.signing.keys import Ed25519Signer, parse_keys
from pinnace.storage.own_settings import KEY_SECRET, TRUSTED_KEYS, signatures_of
from tests.unit.cli.cluster import BACKUP_LOCATIONS, ServedCluster, connected

COMMAND = ["backup-location", "sign-key"]
OLD = str(Ed25519Signer.generate().public)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    served = connected(monkeypatch, tmp_path)
    served.add(BACKUP_LOCATIONS, "main", spec={"config": {"region": "x", TRUSTED_KEYS: OLD}})
    return served


def test_the_server_gets_a_secret_and_the_location_trusts_its_public_half(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, "main"]) == 0

    printed = capsys.readouterr().out.strip()
    config = cluster.stored(BACKUP_LOCATIONS, "main")["spec"]["config"]
    pem = base64.b64decode(cluster.stored(SECRETS, "main-signing-key")["data"]["signing-key.pem"])
    assert config == {"region": "x", TRUSTED_KEYS: f"{OLD} {printed}", KEY_SECRET: "main-signing-key"}
    assert str(Ed25519Signer.from_pem(pem).public) == printed
    assert "PRIVATE" not in printed
    assert len(signatures_of(config, pem).trusted) == 2

    writes = len(cluster.writes())
    assert run([*COMMAND, "main"]) == 1
    assert "Secret main-signing-key exists" in capsys.readouterr().err
    assert len(cluster.writes()) == writes + 1  # what was refused
    assert cluster.stored(BACKUP_LOCATIONS, "main")["spec"]["config"] == config


def test_a_file_is_private_new_and_needs_no_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key.pem"
    assert run([*COMMAND, "--file", str(file)]) == 0
    printed = capsys.readouterr().out.strip()
    content = file.read_bytes()
    assert str(Ed25519Signer.from_pem(content).public) == printed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    assert run([*COMMAND, "--file", str(file)]) == 1
    assert "never overwritten" in capsys.readouterr().err
    assert file.read_bytes() == content


def test_a_location_trusts_a_key_whose_file_stays_with_the_user(
    cluster: ServedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, "main", "--file", str(tmp_path / "key.pem")]) == 0

    config = cluster.stored(BACKUP_LOCATIONS, "main")["spec"]["config"]
    assert [str(key) for key in parse_keys(config[TRUSTED_KEYS])] == [OLD, capsys.readouterr().out.strip()]
    assert KEY_SECRET not in config


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the location"),
        (["main", "--file", "x", "--secret", "y"], "--secret or --file"),
        (["none"], "none"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    cluster: ServedCluster, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, *words]) == 1
    assert said in capsys.readouterr().err
    assert cluster.writes() == []

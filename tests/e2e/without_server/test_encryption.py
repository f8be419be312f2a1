"""An encrypted location without a server: every command that reads, with and without an identity."""

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from pinnace.age.x25519 import X25519Identity
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS
from tests.e2e.without_server.command import Pinnace
from tests.support.age.plugin_program import identity_of, install_plugin, recipient_of
from tests.support.runs.without_server import ENCODED_PASSWORD, MakePinnace, exists, files_in

IDENTITY = X25519Identity.generate()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key.txt"
    path.write_text(f"# recipient: {IDENTITY.recipient}\n{IDENTITY.secret_text()}\n")
    return path


@pytest.fixture
def sealing(pinnace_for: MakePinnace, location: Path) -> Pinnace:
    """The command of somebody who has recipients only."""
    return pinnace_for(str(location), environ={"PINNACE_RECIPIENTS": str(IDENTITY.recipient)})


@pytest.fixture
async def backup(sealing: Pinnace, world: str) -> str:
    created = await sealing("backup", "create", "b1", "--include-namespaces", world)
    assert (created.code, created.told) == (0, ""), created
    return "b1"


async def test_a_backup_comes_back_by_its_identity_alone(
    sealing: Pinnace,
    backup: str,
    world: str,
    location: Path,
    key_file: Path,
    client: KubeClient,
    tmp_path: Path,
) -> None:
    files = {path.name: path.read_bytes() for path in (location / "backups" / backup).iterdir()}
    plain = {name for name, data in files.items() if not data.startswith(b"age-encryption.org/v1\n")}
    assert plain == {"velero-backup.json", "b1-pinnace-keys.json", "b1-pinnace-volumes.json"}
    assert world.encode() not in files["b1-pinnace-volumes.json"]
    secrets = (b"value of", ENCODED_PASSWORD.encode(), IDENTITY.secret_text().encode())
    assert not any(secret in data for data in files.values() for secret in secrets)

    target = f"{world}-back"
    restored = await sealing(
        *("--identity-file", str(key_file), "restore", "create", "r1", "--from-backup", backup),
        *("--namespace-mappings", f"{world}:{target}"),
    )
    assert restored.code == 0, restored
    assert (await client.get(CONFIGMAPS, "settings", target))["data"] == {"key": "value of settings"}
    assert (await client.get(SECRETS, "password", target))["data"] == {"password": ENCODED_PASSWORD}
    results = location / "restores/r1/restore-r1-results.gz"
    assert results.read_bytes().startswith(b"age-encryption.org/v1\n")
    opened = await sealing("--identity-file", str(key_file), "restore", "logs", "r1")
    assert "restore completed" in opened.out
    await client.delete(NAMESPACES, target)


async def test_every_command_that_reads_takes_the_identity(
    pinnace_for: MakePinnace, backup: str, world: str, location: Path, key_file: Path, tmp_path: Path
) -> None:
    reading = pinnace_for(str(location), environ={"PINNACE_IDENTITY_FILE": str(key_file)})
    for words, text in (
        (("backup", "get"), "b1"),
        (("backup", "logs", backup), "level=info"),
        (("backup", "describe", backup, "--details"), f"{world}/settings"),
        (("backup", "show", backup, f"configmap/{world}/settings"), "value of settings"),
        (("backup", "verify", backup), "b1"),
    ):
        outcome = await reading(*words)
        assert (outcome.code, text in outcome.out) == (0, True), (words, outcome)
    output = tmp_path / "data.tar.gz"
    assert (await reading("backup", "download", backup, "-o", str(output))).code == 0
    with tarfile.open(output) as tar:
        assert f"resources/configmaps/namespaces/{world}/settings.json" in tar.getnames()


async def test_without_an_identity_there_is_one_error_and_nothing_happens(
    pinnace: Pinnace,
    backup: str,
    world: str,
    location: Path,
    tmp_path: Path,
    client: KubeClient,
) -> None:
    other = tmp_path / "other.txt"
    other.write_text(X25519Identity.generate().secret_text())
    for flags, text in (
        ((), "no identity was given; --identity-file FILE opens it"),
        (("--identity-file", str(other)), "none of the given identities opens"),
    ):
        for words in (
            ("backup", "logs", backup),
            ("backup", "show", backup, f"configmap/{world}/settings"),
            ("backup", "download", backup, "-o", str(tmp_path / "x.tar.gz")),
            ("backup", "verify", backup),
            (
                "restore",
                "create",
                "r1",
                "--from-backup",
                backup,
                "--namespace-mappings",
                f"{world}:{world}-no",
            ),
        ):
            outcome = await pinnace(*flags, *words)
            assert outcome.code != 0, (words, outcome)
            assert outcome.err.count(text) == 1, (words, outcome)
    with pytest.raises(NotFound):
        await client.get(NAMESPACES, f"{world}-no")
    assert not exists(location / "restores")
    assert not exists(tmp_path / "x.tar.gz")
    assert (await pinnace("backup", "get")).code == 0


async def test_a_backup_that_cannot_be_opened_is_no_sound_one_and_the_others_are_verified(
    pinnace: Pinnace, backup: str, world: str
) -> None:
    plain = await pinnace("backup", "create", "plain", "--include-namespaces", world)
    assert plain.code == 0, plain

    outcome = await pinnace("backup", "verify", "--all", "-o", "json")

    assert outcome.code != 0
    assert "backup b1 was not verified: 'b1' is encrypted" in outcome.err
    assert {each["backup"]: each["sound"] for each in json.loads(outcome.out)} == {"b1": False, "plain": True}


async def test_a_deletion_needs_an_identity_only_if_the_plain_list_is_gone(
    pinnace: Pinnace, sealing: Pinnace, backup: str, world: str, location: Path, key_file: Path
) -> None:
    for name in ("b2", "b3"):
        created = await sealing(
            "backup", "create", name, "--include-namespaces", world, "--labels", "run=daily"
        )
        assert created.code == 0
    folder = location / "backups"
    (folder / "b1/b1-pinnace-volumes.json").unlink()
    before = files_in(folder / "b1")

    refused = await pinnace("backup", "delete", "b1", "--confirm")
    assert refused.code == 1
    assert "backup 'b1' is encrypted and has no plain list of its volumes' data" in refused.err
    assert files_in(folder / "b1") == before

    for words in (
        ("backup", "prune", "--selector", "run=daily", "--keep-last", "1", "--confirm"),
        ("--identity-file", str(key_file), "backup", "delete", "b1", "--confirm"),
    ):
        deleted = await pinnace(*words)
        assert deleted.code == 0, deleted
    assert [path.name for path in folder.iterdir()] == ["b3"]


async def test_an_exchanged_backup_is_refused(
    sealing: Pinnace, backup: str, world: str, location: Path, key_file: Path, client: KubeClient
) -> None:
    created = await sealing("backup", "create", "b2", "--include-namespaces", world)
    assert created.code == 0
    folders = location / "backups"
    shutil.copy(folders / "b2/b2.tar.gz", folders / "b1/b1.tar.gz")
    outcome = await sealing("--identity-file", str(key_file), "restore", "create", "--from-backup", "b1")
    assert outcome.code != 0
    assert "encrypted to another key" in outcome.out + outcome.err


@pytest.mark.parametrize("text", ["age1mistyped", "nobody"])
async def test_recipients_that_cannot_be_read_stop_a_backup_before_it_begins(
    pinnace_for: MakePinnace, location: Path, text: str
) -> None:
    outcome = await pinnace_for(str(location), environ={"PINNACE_RECIPIENTS": text})("backup", "create", "b1")
    assert outcome.code != 0
    assert outcome.err.count("config.encryption.recipients: ") == 1, outcome
    assert not exists(location)


async def test_hidden_details_are_read_by_the_identity_alone_and_a_deletion_needs_none(
    pinnace: Pinnace,
    pinnace_for: MakePinnace,
    world: str,
    location: Path,
    key_file: Path,
    client: KubeClient,
) -> None:
    sealing = pinnace_for(
        str(location),
        environ={"PINNACE_RECIPIENTS": str(IDENTITY.recipient), "PINNACE_HIDE_DETAILS": "true"},
    )
    created = await sealing(
        "backup", "create", "b1", "--include-namespaces", world, "--labels", "team=secret"
    )
    assert (created.code, created.told) == (0, ""), created
    files = {path.name: path.read_bytes() for path in (location / "backups" / "b1").iterdir()}
    for name in ("velero-backup.json", "b1-pinnace-volumes.json", "b1-pinnace-keys.json"):
        assert world.encode() not in files[name], name
        assert b"secret" not in files[name], name

    listed = await pinnace("backup", "get")
    assert (listed.code, "Completed" in listed.out) == (0, True), listed
    described = await pinnace("backup", "describe", "b1")
    assert world not in described.out, described
    assert "encrypted; give an identity" in described.out, described
    assert "Namespaces" not in described.out, described
    identity = ("--identity-file", str(key_file))
    described = await pinnace(*identity, "backup", "describe", "b1")
    assert (described.code, world in described.out, "team=secret" in described.out) == (0, True, True)

    target = f"{world}-back"
    restore = ("restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    refused = await pinnace(*restore)
    assert (refused.code != 0, "no identity was given" in refused.err) == (True, True), refused
    restored = await pinnace(*identity, *restore)
    assert restored.code == 0, restored
    assert (await client.get(SECRETS, "password", target))["data"] == {"password": ENCODED_PASSWORD}
    await client.delete(NAMESPACES, target)

    assert (await pinnace("backup", "delete", "b1", "--confirm")).code == 0
    assert not exists(location / "backups" / "b1")


async def test_a_plugin_of_age_opens_a_backup_and_asks_on_a_terminal_only(
    pinnace_for: MakePinnace, world: str, location: Path, client: KubeClient, tmp_path: Path
) -> None:
    install_plugin(tmp_path)
    path = f"{tmp_path}:{os.environ['PATH']}"
    sealing = pinnace_for(str(location), environ={"PINNACE_RECIPIENTS": recipient_of("plain"), "PATH": path})
    created = await sealing("backup", "create", "b1", "--include-namespaces", world)
    assert (created.code, created.told) == (0, ""), created
    file, target = tmp_path / "identity", f"{world}-back"
    restore = ("restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    for word, text in (
        ("secret", "age-plugin-test: it asks 'PIN?': run the command on a terminal"),
        ("error", "age-plugin-test: no key is"),
    ):
        file.write_text(identity_of(word))
        refused = await sealing("--identity-file", str(file), *restore)
        assert (refused.code != 0, refused.err.count(text)) == (True, 1), refused
        assert not exists(location / "restores")
    file.write_text(identity_of("say"))
    restored = await sealing("--identity-file", str(file), *restore)
    assert restored.code == 0, restored
    assert "age-plugin-test: touch the key" in restored.err
    assert (await client.get(SECRETS, "password", target))["data"] == {"password": ENCODED_PASSWORD}
    await client.delete(NAMESPACES, target)


async def test_the_doctor_finds_plain_backups_and_lost_keys(
    pinnace: Pinnace, sealing: Pinnace, backup: str, world: str, location: Path
) -> None:
    looked = await sealing("doctor")
    assert "are encrypted, and each has a key file" in looked.out, looked
    assert (await pinnace("backup", "create", "plain", "--include-namespaces", world)).code == 0
    (location / "backups/b1/b1-pinnace-keys.json").unlink()
    looked = await sealing("doctor")
    assert looked.code == 1, looked
    for text in ("1 of the backups in", "have lost their key files, and nobody can open them: b1"):
        assert text in " ".join(looked.out.split()), looked

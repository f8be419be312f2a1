"""Files that we encrypt, opened by the age program, and the reverse."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.errors import ProgramUnavailable
from pinnace.age import bech32
from pinnace.age.errors import InvalidIdentity, PluginFailed
from pinnace.age.identities import Identities
from pinnace.age.payload import Sealing, Unsealing
from pinnace.age.plugins import NobodyToAsk
from pinnace.age.recipients import parse_recipients, wrap, wrap_for_all
from pinnace.age.sizes import CHUNK_BYTES
from pinnace.age.x25519 import X25519Identity
from tests.support.age.plugin_program import identity_of, install_plugin, recipient_of

IDENTITY = X25519Identity.generate()
CONTENT = bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"the rest"


@pytest.fixture(scope="module")
def age() -> Path:
    try:
        return binaries.locate(binaries.AGE_PROGRAM)["age"]
    except ProgramUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key.txt"
    path.write_text(IDENTITY.secret_text() + "\n")
    return path


def run(age: Path, *arguments: str | Path, given: bytes) -> bytes:
    return subprocess.run([age, *arguments], input=given, capture_output=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("content", [b"", b"x", CONTENT[:CHUNK_BYTES], CONTENT], ids=len)
def test_the_age_program_and_ours_open_each_others_files(age: Path, key_file: Path, content: bytes) -> None:
    sealing = Sealing(IDENTITY.recipient)
    assert run(age, "-d", "-i", key_file, given=sealing.feed(content) + sealing.finish()) == content
    theirs = run(age, "-r", str(IDENTITY.recipient), given=content)
    unsealing = Unsealing(IDENTITY)
    assert b"".join(unsealing.feed(theirs)) + unsealing.finish() == content


def test_the_age_program_and_ours_open_each_others_wrapped_secrets(age: Path, key_file: Path) -> None:
    recipient = str(IDENTITY.recipient)
    assert run(age, "-d", "-i", key_file, given=wrap(b"secret", parse_recipients(recipient))) == b"secret"
    identities = Identities.parse(key_file.read_bytes())
    assert identities.unwrap(run(age, "-r", recipient, given=b"secret")) == b"secret"


@pytest.fixture
def _plugins(age: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins of age's own authors, and the one of our tests, on PATH."""
    install_plugin(tmp_path)
    for name, path in binaries.locate(binaries.AGE_PLUGINS).items():
        (tmp_path / name).symlink_to(path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


HARDWARE = bech32.encode("age-plugin-tagtest-", b"").upper()
"""The identity of a plugin that stands for a hardware key."""


async def exchange(age: Path, folder: Path, recipients: str, identity: str) -> None:
    """Wrap for recipients, and open by an identity, by ours and by the age program, in all four ways."""
    file = folder / "identity.txt"
    file.write_text(identity)
    theirs = run(age, *(f"--recipient={each}" for each in recipients.split()), given=b"secret")
    ours = await wrap_for_all(b"secret", parse_recipients(recipients))
    for wrapped in (theirs, ours):
        assert await Identities.parse(identity.encode(), dialog=NobodyToAsk()).open(wrapped) == b"secret"
        assert run(age, "-d", "-i", file, given=wrapped) == b"secret"


@pytest.mark.usefixtures("_plugins")
async def test_the_plugin_of_our_tests_serves_the_age_program_alike(age: Path, tmp_path: Path) -> None:
    await exchange(age, tmp_path, f"{IDENTITY.recipient} {recipient_of('plain')}", identity_of("plain"))


@pytest.mark.usefixtures("_plugins")
@pytest.mark.parametrize("kind", ["tag", "tagpq"])
async def test_what_is_for_a_hardware_tag_is_opened_by_its_plugin(
    age: Path, tmp_path: Path, kind: str
) -> None:
    recipient = tagged_recipient(kind)
    await exchange(age, tmp_path, recipient, HARDWARE)
    if kind == "tag":
        await exchange(age, tmp_path, f"{IDENTITY.recipient} {recipient} {recipient_of('plain')}", HARDWARE)


@pytest.mark.usefixtures("_plugins")
async def test_a_key_that_quantum_computers_do_not_break_is_one_of_a_plugin(
    age: Path, tmp_path: Path
) -> None:
    native = run(tmp_path / "age-keygen", "-pq", given=b"").decode()
    (recipient,) = (word for word in native.split() if word.startswith("age1pq1"))
    identity = run(tmp_path / "age-plugin-pq", "-identity", given=native.encode()).decode()
    await exchange(age, tmp_path, recipient, identity)
    with pytest.raises(PluginFailed, match="cannot stand beside the others"):
        await wrap_for_all(b"secret", parse_recipients(f"{recipient} {IDENTITY.recipient}"))
    with pytest.raises(InvalidIdentity, match="convert it by age-plugin-pq"):
        Identities.parse(native.encode(), dialog=NobodyToAsk())


def tagged_recipient(kind: str) -> str:
    """The recipient of the plugin's identity, as its program has it."""
    length = {"tag": 33, "tagpq": 1184 + 65}[kind]
    digits = -(-length * 8 // 5) + 6
    program = binaries.locate(binaries.AGE_PLUGINS)["age-plugin-tagtest"].read_bytes()
    found = re.search(rb"age1%s1[a-z0-9]{%d}" % (kind.encode(), digits), program)
    assert found is not None
    return found[0].decode()

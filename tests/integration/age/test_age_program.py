"""Files that we encrypt, opened by the age program, and the reverse."""

import subprocess
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.errors import ProgramUnavailable
from pinnace.age.identities import Identities
from pinnace.age.payload import Sealing, Unsealing
from pinnace.age.recipients import parse_recipients, wrap
from pinnace.age.sizes import CHUNK_BYTES
from pinnace.age.x25519 import X25519Identity

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

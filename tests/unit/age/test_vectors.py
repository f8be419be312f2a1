"""The public vectors of the age format: whole files open to the same content, damaged ones do not."""

import hashlib
import zlib
from pathlib import Path
from typing import Final

import pytest

from pinnace.age.errors import AgeError, InvalidIdentity, MalformedFile, NoIdentityMatches
from pinnace.age.identities import Identities
from pinnace.age.payload import Chunks, Unsealing
from pinnace.age.x25519 import X25519Identity

VECTORS: Final = sorted(
    path for path in (Path(__file__).parent / "vectors").iterdir() if path.suffix != ".md"
)

FOR_KEYS: Final = [path for path in VECTORS if b"\npassphrase: " not in path.read_bytes()[:400]]


def load(path: Path) -> tuple[dict[str, str], bytes]:
    head, _, body = path.read_bytes().partition(b"\n\n")
    facts = dict(line.split(": ", 1) for line in head.decode().splitlines())
    return facts, zlib.decompress(body) if facts.get("compressed") == "zlib" else body


def opened(body: bytes, identity: X25519Identity, piece: int) -> tuple[bytes, AgeError | None]:
    """What comes out of a file that comes in pieces, and the error it ends with."""
    unsealing, content = Unsealing(identity), b""
    try:
        for start in range(0, len(body), piece):
            for block in unsealing.feed(body[start : start + piece]):
                content += block
        return content + unsealing.finish(), None
    except AgeError as error:
        return content, error


@pytest.mark.parametrize("path", FOR_KEYS, ids=lambda path: path.name)
def test_a_file_for_a_key_ends_as_the_vector_says(path: Path) -> None:
    facts, body = load(path)
    identity = X25519Identity.parse(facts["identity"]) if "identity" in facts else X25519Identity.generate()
    for piece in (len(body) or 1, 1000):
        content, error = opened(body, identity, piece)
        match facts["expect"]:
            case "success":
                assert error is None
                assert hashlib.sha256(content).hexdigest() == facts["payload"]
            case "no match":
                assert isinstance(error, NoIdentityMatches)
            case _:
                assert isinstance(error, MalformedFile)


@pytest.mark.parametrize("path", sorted(set(VECTORS) - set(FOR_KEYS)), ids=lambda path: path.name)
def test_a_file_for_a_passphrase_opens_only_alone_and_within_the_limit_of_work(path: Path) -> None:
    """The content of the vectors is no identity, so that one that opens is refused for that."""
    facts, body = load(path)
    with pytest.raises(InvalidIdentity) as refused:
        Identities.parse(body, lambda _: facts["passphrase"])
    opens = "is no identity" in str(refused.value) or "has no identity" in str(refused.value)
    assert opens == (facts["expect"] == "success")


def test_the_last_chunk_of_a_vector_is_found_by_the_size() -> None:
    facts, body = load(Path(__file__).parent / "vectors" / "stream_two_chunks")
    chunks = Chunks.after_header(body, X25519Identity.parse(facts["identity"]))
    assert chunks is not None
    assert chunks.last(len(body)) == 1
    parts = [
        chunks.open(number, body[chunks.place(number) : chunks.place(number + 1)], last=number == 1)
        for number in (0, 1)
    ]
    assert hashlib.sha256(b"".join(parts)).hexdigest() == facts["payload"]
    assert chunks.plain_bytes(len(body)) == sum(map(len, parts))

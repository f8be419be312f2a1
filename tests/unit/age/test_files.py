"""Files that we encrypt and pyrage opens, and the reverse; damage at every byte and border; ranges."""

import io

import pyrage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace.age.errors import AgeError, InvalidIdentity, InvalidRecipient, MalformedFile, NoIdentityMatches
from pinnace.age.payload import Chunks, Sealing, Unsealing
from pinnace.age.sizes import CHUNK_BYTES, OWN_HEAD_BYTES, SEALED_BYTES, content_size, sealed_size
from pinnace.age.x25519 import X25519Identity, X25519Recipient

IDENTITY = X25519Identity.generate()
THEIRS = pyrage.x25519.Identity.from_str(IDENTITY.secret_text())
SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 5]


def sealed(content: bytes, *, recipient: X25519Recipient = IDENTITY.recipient, piece: int = 50_000) -> bytes:
    sealing = Sealing(recipient)
    pieces = [sealing.feed(content[start : start + piece]) for start in range(0, len(content), piece)]
    return b"".join((*pieces, sealing.finish()))


def opened(data: bytes, *, identity: X25519Identity = IDENTITY, piece: int = 50_000) -> bytes:
    unsealing = Unsealing(identity)
    content = [
        block for start in range(0, len(data), piece) for block in unsealing.feed(data[start : start + piece])
    ]
    return b"".join((*content, unsealing.finish()))


def pattern(size: int) -> bytes:
    return bytes(number % 251 for number in range(size))


@pytest.mark.parametrize("size", SIZES)
def test_files_open_in_both_directions_with_another_implementation(size: int) -> None:
    content = pattern(size)
    ours = sealed(content)
    assert len(ours) == sealed_size(size)
    assert content_size(len(ours)) == size
    assert pyrage.decrypt(ours, [THEIRS]) == content
    theirs = io.BytesIO()
    pyrage.encrypt_io(io.BytesIO(content), theirs, [THEIRS.to_public()])
    assert opened(theirs.getvalue()) == content
    assert str(IDENTITY.recipient) == str(THEIRS.to_public())


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=3 * CHUNK_BYTES), st.integers(1, 100_000), st.integers(1, 100_000))
def test_any_content_in_any_pieces_comes_back(content: bytes, written: int, read: int) -> None:
    assert opened(sealed(content, piece=written), piece=max(read, 500)) == content


def test_every_flipped_byte_is_found() -> None:
    data = sealed(b"content of a file")
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(AgeError):
            opened(bytes(changed))


def test_cut_moved_exchanged_repeated_and_added_chunks_are_found() -> None:
    one, other = sealed(pattern(4 * CHUNK_BYTES)), sealed(pattern(4 * CHUNK_BYTES)[::-1])

    def chunk(data: bytes, number: int) -> bytes:
        start = OWN_HEAD_BYTES + number * SEALED_BYTES
        return data[start : start + SEALED_BYTES]

    head = one[:OWN_HEAD_BYTES]
    chunks = [chunk(one, number) for number in range(4)]
    damaged = [head + b"".join(chunks[:count]) for count in range(4)]  # cut at each border
    damaged += [one[:length] for length in (0, 10, OWN_HEAD_BYTES - 1, OWN_HEAD_BYTES + 5, len(one) - 1)]
    damaged.append(head + b"".join([chunks[1], chunks[0], *chunks[2:]]))
    damaged.append(head + b"".join([chunks[0], chunk(other, 1), *chunks[2:]]))
    damaged.append(head + b"".join([chunks[0], chunks[0], *chunks[2:]]))
    damaged.append(one + chunks[3])
    damaged.append(one + b"\0")
    damaged.append(other[:OWN_HEAD_BYTES] + b"".join(chunks))
    for data in damaged:
        with pytest.raises(MalformedFile):
            opened(data)


def test_a_file_for_another_key_matches_no_identity() -> None:
    with pytest.raises(NoIdentityMatches):
        opened(sealed(b"x"), identity=X25519Identity.generate())


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SIZES[1:]), st.data())
def test_single_chunks_make_any_range(size: int, data: st.DataObject) -> None:
    content = pattern(size)
    stored = sealed(content)
    first = data.draw(st.integers(0, size - 1))
    end = data.draw(st.integers(first + 1, size))
    chunks = Chunks.after_header(stored[:OWN_HEAD_BYTES], IDENTITY)
    assert chunks is not None
    last = chunks.last(len(stored))
    numbers = range(first // CHUNK_BYTES, (end - 1) // CHUNK_BYTES + 1)
    plain = b"".join(
        chunks.open(number, stored[chunks.place(number) : chunks.place(number + 1)], last=number == last)
        for number in numbers
    )
    skipped = numbers[0] * CHUNK_BYTES
    assert plain[first - skipped : end - skipped] == content[first:end]
    assert chunks.plain_bytes(len(stored)) == size
    if last:  # a file that lost its last chunk shows it by the chunk before
        with pytest.raises(MalformedFile):
            chunks.open(last - 1, stored[chunks.place(last - 1) : chunks.place(last)], last=True)


@pytest.mark.parametrize("stored", [OWN_HEAD_BYTES, OWN_HEAD_BYTES + 15, OWN_HEAD_BYTES + SEALED_BYTES + 16])
def test_a_size_that_no_file_has_is_refused(stored: int) -> None:
    chunks = Chunks.after_header(sealed(b"x"), IDENTITY)
    assert chunks is not None
    with pytest.raises(MalformedFile):
        chunks.last(stored)


def test_headers_beyond_the_limits_are_refused_without_an_end() -> None:
    magic = b"age-encryption.org/v1\n"
    for data in (
        magic + b"-> a\n\n" * 65,
        magic + b"-> " + b"a" * (64 << 10),
        magic + b"-> a\n" + b"A" * 65 + b"\n",
    ):
        with pytest.raises(MalformedFile):
            for _ in Unsealing(IDENTITY).feed(data):
                pass


@pytest.mark.parametrize(
    "text",
    [
        "age1",
        "",
        "age1qqqq",
        str(IDENTITY.recipient)[:-1],
        str(IDENTITY.recipient).upper(),
        "AGE1x",
        "a" * 100,
    ],
    ids=range(7),
)
def test_a_mistyped_recipient_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecipient):
        X25519Recipient.parse(text)


def test_a_mistyped_identity_is_refused_without_being_repeated() -> None:
    secret = IDENTITY.secret_text()
    for text in (secret[:-1], secret.lower(), secret[:-2] + secret[-1] + secret[-2], secret + "Q"):
        with pytest.raises(InvalidIdentity) as refused:
            X25519Identity.parse(text)
        assert text[20:40] not in str(refused.value)
    assert secret not in repr(IDENTITY)

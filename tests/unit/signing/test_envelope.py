"""Envelopes and statements: the vector of DSSE, another implementation in both directions, and attacks."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from pinnace.signing.envelope import IN_TOTO, MOST_ENVELOPE_BYTES, pae, sign, verify
from pinnace.signing.errors import BadEnvelope, BadKey, SignatureNotTrusted, SigningError
from pinnace.signing.keys import MOST_KEYS, Ed25519Signer, PublicKey, parse_keys
from pinnace.signing.statement import SignedFile, Statement, decode_statement, encode_statement

dsse = pytest.importorskip("securesystemslib.dsse", reason="the other implementation is not installed")
signers = pytest.importorskip("securesystemslib.signer")

PAYLOAD = b'{"a": 1}'
KEY = Ed25519Signer.generate()
OTHER = Ed25519Signer.generate()


def der_of(public: Any) -> bytes:
    return bytes(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def one_line(private: Any) -> str:
    return base64.b64encode(der_of(private.public_key())).decode()


def test_the_vector_of_the_dsse_specification() -> None:
    x = 46950820868899156662930047687818585632848591499744589407958293238635476079160
    y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
    key = PublicKey(der_of(ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()))
    raw = base64.b64decode(
        "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="
    )
    signature = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    encoded = pae("http://example.com/HelloWorld", b"hello world")

    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert key.made(signature, encoded)


async def test_securesystemslib_accepts_ours() -> None:
    envelope = dsse.Envelope.from_dict(json.loads(await sign(PAYLOAD, KEY)))
    theirs = signers.SSlibKey.from_crypto(load_pem_private_key(KEY.pem(), None).public_key())

    assert theirs.keyid == KEY.public.id
    assert envelope.verify([theirs], 1)
    assert envelope.payload == PAYLOAD


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
async def test_what_securesystemslib_signs_is_accepted(kind: str) -> None:
    signer = {
        "ed25519": signers.CryptoSigner.generate_ed25519,
        "ecdsa": signers.CryptoSigner.generate_ecdsa,
        "rsa": signers.CryptoSigner.generate_rsa,
    }[kind]()
    envelope = dsse.Envelope(PAYLOAD, IN_TOTO, {})
    envelope.sign(signer)
    key = PublicKey(der_of(signer._private_key.public_key()))

    verified = verify(json.dumps(envelope.to_dict()).encode(), [OTHER.public, key])

    assert (verified.payload, verified.key.id) == (PAYLOAD, signer.public_key.keyid)


async def test_every_flipped_byte_of_an_envelope_is_found_or_changes_no_meaning() -> None:
    envelope = await sign(PAYLOAD, KEY)
    start = envelope.index(b'"keyid"')
    hint = range(start, envelope.index(b'"sig"'))  # signed by nobody, and not relied on
    for position in range(len(envelope)):
        changed = bytearray(envelope)
        changed[position] ^= 1
        if position in hint:
            continue
        with pytest.raises(SigningError):
            verify(bytes(changed), [KEY.public])


async def test_one_signature_of_a_trusted_key_suffices_among_others() -> None:
    ours, theirs = json.loads(await sign(PAYLOAD, KEY)), json.loads(await sign(PAYLOAD, OTHER))
    ours["signatures"] = theirs["signatures"] + ours["signatures"]

    assert verify(json.dumps(ours).encode(), [KEY.public]).key.id == KEY.public.id
    with pytest.raises(SignatureNotTrusted):
        verify(json.dumps(theirs).encode(), [KEY.public])
    with pytest.raises(SignatureNotTrusted):
        verify(json.dumps(ours | {"signatures": []}).encode(), [KEY.public])


async def test_a_key_id_that_names_a_trusted_key_proves_nothing() -> None:
    forged = json.loads(await sign(PAYLOAD, OTHER))
    forged["signatures"][0]["keyid"] = KEY.public.id

    with pytest.raises(SignatureNotTrusted):
        verify(json.dumps(forged).encode(), [KEY.public])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda e: e.replace(b"{", b'{"payload":"e30=",', 1), "twice", id="a-key-twice"),
        pytest.param(lambda e: b'{"a":' * 5000 + b"1" + b"}" * 5000, "levels", id="deep"),
        pytest.param(lambda e: b"[" * 20 + b"]" * 20, "levels", id="lists-in-lists"),
        pytest.param(lambda e: e + b" " * MOST_ENVELOPE_BYTES, "more than", id="huge"),
        pytest.param(lambda e: b"[]", "no DSSE envelope", id="no-object"),
        pytest.param(lambda e: e[:-1], "not valid JSON", id="cut"),
        pytest.param(lambda e: b"\xff" + e, "not valid JSON", id="not-utf-8"),
        pytest.param(lambda e: b'{"a": NaN}', "NaN", id="nan"),
        pytest.param(lambda e: b'{"a": ' + b"1" * 5000 + b"}", "not valid JSON", id="long-number"),
        pytest.param(lambda e: e.replace(IN_TOTO.encode(), b"text/plain"), "of type", id="other-type"),
        pytest.param(lambda e: e.replace(b'"payload":"', b'"payload":"!'), "base64", id="no-base64"),
        pytest.param(
            lambda e: json.dumps(json.loads(e) | {"signatures": json.loads(e)["signatures"] * 9}).encode(),
            "more than 8",
            id="many-signatures",
        ),
    ],
)
async def test_hostile_envelopes_are_refused(change: Callable[[bytes], bytes], said: str) -> None:
    with pytest.raises(BadEnvelope, match=said):
        verify(change(await sign(PAYLOAD, KEY)), [KEY.public])


DIGEST = "a" * 64


def statement(**changes: Any) -> bytes:
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "a", "digest": {"sha256": DIGEST}}],
            "predicateType": "t",
            "predicate": {},
        }
        | changes
    ).encode()


def test_a_statement_comes_back_as_it_was() -> None:
    made = Statement(
        subject=[SignedFile(name="a", digest={"sha256": DIGEST})], predicate_type="t", predicate={"b": 1}
    )

    assert decode_statement(encode_statement(made), "t") == made
    assert decode_statement(statement(), "t").subject[0].sha256 == DIGEST


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (statement(_type="https://in-toto.io/Statement/v0.1"), "statement is of type"),
        (statement(predicateType="other"), "and not"),
        (statement(subject=[{"name": "a", "digest": {"sha256": DIGEST}}] * 2), "names a file twice"),
        (statement(subject=[{"name": "a", "digest": {"sha1": DIGEST}}]), "no SHA-256"),
        (statement(subject=[{"name": "a", "digest": {"sha256": "A" * 64}}]), "no SHA-256"),
        (statement(subject=[{"name": 1}]), "no in-toto statement"),
        (statement().replace(b"{", b'{"predicate": {},', 1), "twice"),
    ],
)
def test_bad_statements_are_refused(payload: bytes, said: str) -> None:
    with pytest.raises(BadEnvelope, match=said):
        decode_statement(payload, "t")


def test_keys_of_a_setting_are_read_as_lines_commas_or_pem() -> None:
    pem = load_pem_private_key(OTHER.pem(), None).public_key()
    armoured = pem.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    ids = [KEY.public.id, OTHER.public.id]

    assert [key.id for key in parse_keys(f"{KEY.public}, {OTHER.public}\n{KEY.public}")] == ids
    assert [key.id for key in parse_keys(f"{KEY.public}\n{armoured}")] == ids
    assert parse_keys(" ") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x!", "key 1 is not base64"),
        (f"{KEY.public} AAAA", "key 2 is not a public key"),
        (" ".join(["AAAA"] * (MOST_KEYS + 1)), "more than 32"),
        (
            base64.b64encode(der_of(generate_private_key(65537, 1024).public_key())).decode(),
            "cannot|can be used",
        ),
        (
            base64.b64encode(der_of(ec.generate_private_key(ec.SECP521R1()).public_key())).decode(),
            "can be used",
        ),
    ],
)
def test_keys_that_cannot_be_trusted_are_named(text: str, said: str) -> None:
    with pytest.raises(BadKey, match=said):
        parse_keys(text)


async def test_a_private_key_comes_back_from_its_file() -> None:
    again = Ed25519Signer.from_pem(KEY.pem())

    assert verify(await sign(PAYLOAD, again), [KEY.public]).payload == PAYLOAD


def test_private_keys_of_other_kinds_are_refused_without_a_word_of_them() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    plain = load_pem_private_key(KEY.pem(), None)
    encrypted = plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    other = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    for pem, said in (
        (encrypted, "is encrypted"),
        (other, "is encrypted"),
        (b"secret-text", "not a private"),
    ):
        with pytest.raises(BadKey, match=said) as caught:
            Ed25519Signer.from_pem(pem)
        assert "secret" not in str(caught.value)

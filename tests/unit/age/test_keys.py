"""Recipients as settings name them, and identities as files have them."""

import base64
import hashlib
import os

import pyrage
import pytest
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from pinnace.age.errors import InvalidIdentity, InvalidRecipient, MalformedFile, NoIdentityMatches
from pinnace.age.header import Stanza, derive, encode_base64, write_header
from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients, wrap
from pinnace.age.x25519 import X25519Identity

AGE_KEY = X25519Identity.generate()
SSH_KEY = Ed25519PrivateKey.generate()
RSA_KEY = generate_private_key(65537, 2048)
SECRET = b"what is wrapped"
PROTECTED = forms.BestAvailableEncryption(b"secret")


def private(key: object, protection: forms.KeySerializationEncryption | None = None) -> bytes:
    assert isinstance(key, Ed25519PrivateKey | type(RSA_KEY))
    form = forms.PrivateFormat.OpenSSH
    return key.private_bytes(forms.Encoding.PEM, form, protection or forms.NoEncryption())


def public(key: object) -> str:
    assert isinstance(key, Ed25519PrivateKey | type(RSA_KEY))
    return key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH).decode()


AGE_FILE = f"# created: today\n# public key: {AGE_KEY.recipient}\n{AGE_KEY.secret_text()}\n".encode()
RECIPIENTS = f"{AGE_KEY.recipient}, {public(SSH_KEY)} alice@host\n{public(RSA_KEY)}"


@pytest.mark.parametrize(
    ("data", "passphrase"),
    [
        pytest.param(AGE_FILE, "", id="age"),
        pytest.param(AGE_FILE.replace(b"\n", b"\r\n"), "", id="age of another system"),
        pytest.param(private(SSH_KEY), "", id="ssh"),
        pytest.param(private(RSA_KEY), "", id="rsa"),
        pytest.param(private(SSH_KEY, PROTECTED), "secret", id="protected ssh"),
    ],
)
def test_each_identity_opens_what_was_wrapped_for_several_recipients(data: bytes, passphrase: str) -> None:
    recipients = parse_recipients(RECIPIENTS)
    assert [recipient.text.split()[0][:4] for recipient in recipients] == ["age1", "ssh-", "ssh-"]
    identities = Identities.parse(data, lambda _: passphrase)
    assert identities.unwrap(wrap(SECRET, recipients)) == SECRET


def protected_file(content: bytes, passphrase: str) -> bytes:
    """With little work, which pyrage does not write."""
    salt, factor, file_key, nonce = os.urandom(16), 10, os.urandom(16), os.urandom(16)
    salted = b"age-encryption.org/v1/scrypt" + salt
    key = hashlib.scrypt(passphrase.encode(), salt=salted, n=1 << factor, r=8, p=1, dklen=32)
    body = ChaCha20Poly1305(key).encrypt(bytes(12), file_key, None)
    header = write_header([Stanza(("scrypt", encode_base64(salt).decode(), str(factor)), body)], file_key)
    payload = ChaCha20Poly1305(derive(file_key, salt=nonce, info=b"payload"))
    return header + nonce + payload.encrypt(bytes(11) + b"\x01", content, None)


@pytest.mark.parametrize("armored", [False, True])
def test_a_file_of_identities_is_opened_by_its_passphrase(armored: bool) -> None:
    protected = protected_file(AGE_FILE, "secret")
    assert pyrage.passphrase.decrypt(protected, "secret") == AGE_FILE
    if armored:
        lines = base64.encodebytes(protected).decode()
        mark = "AGE ENCRYPTED FILE-----"
        protected = f"-----BEGIN {mark}\n{lines}-----END {mark}\n".encode()
    opened = Identities.parse(protected, lambda _: "secret")
    assert opened.unwrap(wrap(SECRET, parse_recipients(str(AGE_KEY.recipient)))) == SECRET
    with pytest.raises(InvalidIdentity, match="passphrase is wrong"):
        Identities.parse(protected, lambda _: "other")
    with pytest.raises(InvalidIdentity, match="nobody to ask"):
        Identities.parse(protected)


@pytest.mark.parametrize("passphrase", ["", "wrong"])
def test_a_protected_ssh_key_needs_its_passphrase(passphrase: str) -> None:
    protected = private(SSH_KEY, PROTECTED)
    with pytest.raises(InvalidIdentity, match="passphrase of the ssh key is wrong"):
        Identities.parse(protected, lambda _: passphrase)


def scrypt_file(factor: str, others: int = 0) -> bytes:
    salt = base64.b64encode(bytes(16)).rstrip(b"=").decode()
    stanzas = [Stanza(("scrypt", salt, factor), bytes(32))] + [Stanza(("grease",), b"")] * others
    return write_header(stanzas, bytes(16)) + bytes(48)


def test_work_that_holds_the_program_is_refused_before_it_begins() -> None:
    for data in (scrypt_file("24"), scrypt_file("21"), scrypt_file("018"), scrypt_file("10", 1)):
        with pytest.raises(InvalidIdentity, match=r"work factor|protected by one passphrase"):
            Identities.parse(data, lambda _: pytest.fail("nobody is asked"))
    for data in (scrypt_file("10"), scrypt_file("10", 1)):
        with pytest.raises(MalformedFile, match="passphrase"):
            Identities.parse(AGE_FILE).unwrap(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "has no identity"),
        (b"# nothing\n", "has no identity"),
        (b"\xff\xfe", "has no identity"),
        (b"x" * 70_000, "more than 65536 bytes"),
        (str(AGE_KEY.recipient).encode(), "line 1 is a recipient"),
        (AGE_FILE[:-10], "line 3"),
        (b"AGE-PLUGIN-YUBIKEY-1QQQ", "line 1: an identity of a plugin: it is cut off"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "ssh key"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\nAAAA\n-----END AGE ENCRYPTED FILE-----\n", "damaged age file"),
        (wrap(AGE_FILE, parse_recipients(str(AGE_KEY.recipient))), "not protected by one passphrase"),
        (AGE_FILE * 65, "more than 64 identities"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_file_of_identities_is_refused_without_repeating_secrets(data: bytes, text: str) -> None:
    with pytest.raises(InvalidIdentity, match=text) as refused:
        Identities.parse(data)
    assert AGE_KEY.secret_text()[20:40] not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no recipient is given"),
        (" , \n", "no recipient is given"),
        ("age1x", "cannot be read"),
        ("alice", "is no recipient"),
        ("ssh-ed25519", "cannot be read"),
        ("ssh-ed25519 AAAA", "cannot be read"),
        ("ecdsa-sha2-nistp256 AAAA", "is no recipient"),
        (f"{AGE_KEY.recipient} {AGE_KEY.recipient}", "given twice"),
        (AGE_KEY.secret_text(), "a private key stands where recipients belong"),
        (f"{public(SSH_KEY)} {AGE_KEY.secret_text()}", "a private key stands where recipients belong"),
        ("age1yubikey1qqqq", "cannot be read"),
    ],
    ids=range(11),
)
def test_recipients_that_cannot_be_used_are_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidRecipient, match=expected) as refused:
        parse_recipients(text)
    assert AGE_KEY.secret_text()[20:40] not in str(refused.value)


def test_what_is_wrapped_for_others_or_damaged_is_told_apart() -> None:
    wrapped = wrap(SECRET, parse_recipients(str(X25519Identity.generate().recipient)))
    identities = Identities.parse(AGE_FILE)
    with pytest.raises(NoIdentityMatches):
        identities.unwrap(wrapped)
    own = wrap(SECRET, parse_recipients(str(AGE_KEY.recipient)))
    for damaged in (own[:-1], own[:-1] + bytes([own[-1] ^ 1]), own[:50], b"", b"{}", own + bytes(70_000)):
        with pytest.raises(MalformedFile):
            identities.unwrap(damaged)

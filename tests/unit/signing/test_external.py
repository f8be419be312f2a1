"""Keys that cannot be read: by the signers of securesystemslib, and by a software HSM where there is one."""

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from pinnace.signing.envelope import sign, verify
from pinnace.signing.errors import BadKey
from pinnace.signing.external import PIN_VARIABLE, ExternalKey
from pinnace.signing.keys import Ed25519Signer, PublicKey
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.own_settings import PUBLIC_KEY, SIGNER, signatures_of

signers = pytest.importorskip("securesystemslib.signer", reason="pinnace[signers] is not installed")


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A vendor whose key is in a file, behind the URI of a KMS."""
    theirs = signers.CryptoSigner.generate_ecdsa()

    class Vendor:
        @classmethod
        def from_priv_key_uri(cls, uri: str, public_key: Any, secrets_handler: Any = None) -> Any:
            if uri == "awskms:gone":
                raise RuntimeError("AccessDenied")
            return theirs

    monkeypatch.setitem(signers.SIGNER_FOR_URI_SCHEME, "awskms", Vendor)
    return theirs._private_key.public_key()


def public_of(key: Any) -> PublicKey:
    return PublicKey(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


async def test_what_a_vendor_signs_is_verified_by_its_public_key(vendor: Any) -> None:
    made = signatures_of({SIGNER: "awskms:alias/backups", PUBLIC_KEY: str(public_of(vendor))})
    assert made.key is not None

    assert verify(await sign(b"{}", made.key), made.trusted).payload == b"{}"


async def test_a_vendor_that_refuses_and_one_with_another_key_do_not_sign(vendor: Any) -> None:
    with pytest.raises(BadKey, match="awskms:gone did not sign: RuntimeError: AccessDenied"):
        await ExternalKey("awskms:gone", public_of(vendor)).sign(b"x")
    with pytest.raises(BadKey, match="another key"):
        await ExternalKey("awskms:main", Ed25519Signer.generate().public).sign(b"x")


async def test_without_the_extra_it_is_named(vendor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "securesystemslib.signer", None)

    with pytest.raises(BadKey, match=r"pip install 'pinnace\[signers\]'"):
        await ExternalKey("awskms:main", public_of(vendor)).sign(b"x")


@pytest.mark.parametrize(
    ("config", "pem", "said"),
    [
        ({SIGNER: "awskms:x"}, None, "needs its public key"),
        ({SIGNER: "file2:/etc/key", PUBLIC_KEY: str(Ed25519Signer.generate().public)}, None, "begins with"),
        ({SIGNER: "awskms:x"}, Ed25519Signer.generate().pem(), "there are two"),
    ],
)
def test_settings_of_a_signer_that_make_no_sense(
    config: dict[str, str], pem: bytes | None, said: str
) -> None:
    with pytest.raises(StoreConfigError, match=said):
        signatures_of(config, pem)


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PublicKey:
    """A token of a software HSM with one key, and the key's public half."""
    util = shutil.which("softhsm2-util")
    library = os.environ.get("SOFTHSM2_LIB", "/usr/lib/softhsm/libsofthsm2.so")
    if util is None or not Path(library).exists():
        pytest.skip("this machine has no softhsm2")
    pytest.importorskip("pkcs11", reason="python-pkcs11 is not installed")
    (tmp_path / "tokens").mkdir()
    config = tmp_path / "softhsm2.conf"
    config.write_text(f"directories.tokendir = {tmp_path}/tokens\nlog.level = ERROR\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(config))
    monkeypatch.setenv("PYKCS11LIB", library)
    monkeypatch.setenv(PIN_VARIABLE, "1234")
    words = ["--init-token", "--free", "--label", "backups", "--so-pin", "0000", "--pin", "1234"]
    subprocess.run([util, "--module", library, *words], check=True, capture_output=True, timeout=60)
    # In a process of its own: this one shall see the token as another program has made it.
    code = """
import base64, sys, pkcs11, pkcs11.util.ec as ec
from pkcs11 import KeyType, Attribute
token = pkcs11.lib(sys.argv[1]).get_token(token_label="backups")
with token.open(rw=True, user_pin="1234") as session:
    curve = {Attribute.EC_PARAMS: ec.encode_named_curve_parameters("secp256r1")}
    made = session.create_domain_parameters(KeyType.EC, curve, local=True)
    public, _ = made.generate_keypair(store=True, id=bytes([2]), label="sign")
    print(base64.b64encode(ec.encode_ec_public_key(public)).decode())
"""
    made = subprocess.run(
        [sys.executable, "-c", code, library], check=True, capture_output=True, text=True, timeout=60
    )
    return public_of(load_der_public_key(base64.b64decode(made.stdout)))


async def test_a_key_in_an_hsm_signs(token: PublicKey, monkeypatch: pytest.MonkeyPatch) -> None:
    key = ExternalKey("hsm:2?label=backups", token)

    assert verify(await sign(b"{}", key), [token]).payload == b"{}"

    monkeypatch.delenv(PIN_VARIABLE)
    with pytest.raises(BadKey, match=f"{PIN_VARIABLE} is not set"):
        await key.sign(b"x")

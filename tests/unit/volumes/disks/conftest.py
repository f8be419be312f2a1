"""Credentials and a scripted cloud."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.stores.scripted_cloud import Cloud, scripted_cloud


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with scripted_cloud() as cloud:
        yield cloud


@pytest.fixture(scope="session")
def rsa_key() -> RSAPrivateKey:
    # A small one: the library checks a key each time it reads it, 70 ms for one of real size.
    return generate_private_key(public_exponent=65537, key_size=1024)


@pytest.fixture
def key_file(tmp_path: Path, rsa_key: RSAPrivateKey, cloud: Cloud) -> Path:
    """The key of a service account whose tokens the scripted cloud gives."""
    cloud.on("POST", "/token", {"access_token": "google-token", "expires_in": 3599})
    pem = rsa_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    path = tmp_path / "key.json"
    values = {
        "type": "service_account",
        "project_id": "shop",
        "client_email": "velero@shop.iam.gserviceaccount.com",
        "private_key": pem,
        "token_uri": f"{cloud.url}/token",
    }
    path.write_text(json.dumps(values))
    return path

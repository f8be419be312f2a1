"""Credentials and a scripted cloud."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.unit.volumes.disks.service import Cloud


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    cloud = Cloud()
    runner = web.ServerRunner(web.Server(cloud.handle), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    cloud.url = f"http://{host}:{port}"
    yield cloud
    await runner.cleanup()


@pytest.fixture(scope="session")
def rsa_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


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


async def no_pause(seconds: float) -> None:
    """Go on at once."""

"""Keys of backups wrapped by AWS KMS, as moto's server has it.

moto obeys neither disabled keys nor the key that a decryption names: those refusals are scripted
(tests/unit/kms).
"""

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest

from pinnace.kms.access import KMSAccess
from pinnace.kms.errors import KMSRefused
from pinnace.kms.wrapping import unwrap, wrap
from pinnace.store_access.requests import RequestPolicy
from tests.support.stores.moto import running_moto

REGION = "eu-central-1"
SECRET = bytes(range(64))


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_moto(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture(scope="module")
def service(moto: str) -> Any:
    """A client of AWS's own library, to make keys with."""
    return botocore.session.get_session().create_client(
        "kms",
        region_name=REGION,
        endpoint_url=moto,
        aws_access_key_id="id",
        aws_secret_access_key="secret",
    )


@pytest.fixture
def access(moto: str) -> KMSAccess:
    environ = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL_KMS": moto,
    }
    return KMSAccess(environ=environ, policy=RequestPolicy(attempts=2, base_seconds=0.0))


def new_key(service: Any) -> str:
    arn: str = service.create_key()["KeyMetadata"]["Arn"]
    return arn


async def test_a_wrapped_secret_comes_back_unless_it_was_changed(service: Any, access: KMSAccess) -> None:
    arn = new_key(service)
    wrapped = await wrap(f"awskms:///{arn}", SECRET, access)

    assert SECRET not in wrapped
    assert await unwrap(f"awskms:///{arn}", wrapped, access) == SECRET
    assert service.decrypt(KeyId=arn, CiphertextBlob=wrapped)["Plaintext"] == SECRET
    with pytest.raises(KMSRefused, match="InvalidCiphertextException"):
        await unwrap(f"awskms:///{arn}", wrapped[:-1] + bytes([wrapped[-1] ^ 1]), access)


async def test_an_alias_wraps_by_its_key(service: Any, access: KMSAccess) -> None:
    arn = new_key(service)
    service.create_alias(AliasName="alias/backups", TargetKeyId=arn)
    alias = arn.rpartition(":")[0] + ":alias/backups"
    wrapped = await wrap(f"awskms:///{alias}", SECRET, access)
    assert await unwrap(f"awskms:///{arn}", wrapped, access) == SECRET


async def test_a_key_that_is_missing_is_refused_with_what_to_do(access: KMSAccess) -> None:
    missing = f"arn:aws:kms:{REGION}:111122223333:key/00000000-0000-0000-0000-000000000000"
    with pytest.raises(KMSRefused, match=r"\(NotFoundException\): there is no such key in this region"):
        await wrap(f"awskms:///{missing}", SECRET, access)

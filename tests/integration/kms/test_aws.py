"""Keys of backups wrapped by AWS KMS, as moto's server has it.

moto obeys neither disabled keys nor the key that a decryption names: those refusals are scripted
(tests/unit/kms).
"""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from pinnace.kms.access import KMSAccess
from pinnace.kms.errors import KMSRefused
from pinnace.kms.wrapping import unwrap, wrap
from pinnace.storage.backup_files import BackupFiles
from pinnace.storage.key_errors import IdentityMissing
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
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


async def test_a_backup_is_made_and_read_by_the_rights_to_a_key(
    service: Any, access: KMSAccess, tmp_path: Path
) -> None:
    location = location_from_url(str(tmp_path))
    location.spec.config["encryption.kms"] = f"awskms:///{new_key(service)}"
    log = tmp_path / "log.gz"
    log.write_bytes(gzip.compress(b"the log"))
    (tmp_path / "contents").write_bytes(b"the contents")
    files = BackupFiles(
        name="b1",
        metadata=b'{"kind": "Backup", "metadata": {"name": "b1"}}',
        contents=tmp_path / "contents",
        log=log,
        resource_list={"v1/ConfigMap": ["app/a-name"]},
        results={"errors": {}, "warnings": {}},
    )
    async with open_backup_store(location, environ=access.environ) as store:
        await store.put_backup(files)
    stored = tmp_path / "backups/b1"
    assert (stored / "b1.tar.gz").read_bytes().startswith(b"age-encryption.org/v1")

    async with open_backup_store(location, environ=access.environ) as store:
        assert await store.read_resource_list("b1") == {"v1/ConfigMap": ["app/a-name"]}
    nobody = {name: value for name, value in access.environ.items() if not name.startswith("AWS_S")}
    nobody |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    location.spec.config["encryption.kms"] = ""
    async with open_backup_store(location, environ=nobody) as store:
        with pytest.raises(IdentityMissing, match=r"name the key in encryption\.kms"):
            await store.read_resource_list("b1")


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

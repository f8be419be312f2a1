"""Locations whose backups a server encrypts: by keys of AWS KMS (moto), and when their settings change."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.age.x25519 import X25519Identity
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, velero
from tests.support.cluster.namespaces import erase_namespace
from tests.support.servers.sites import Serve, Site
from tests.support.stores.moto import running_moto

AGE = b"age-encryption.org/v1\n"
REGION = "eu-central-1"


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_moto(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture
def kms_key(moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a key that the server's own credentials may use."""
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_ENDPOINT_URL_KMS", moto),
    ):
        monkeypatch.setenv(name, value)
    service: Any = botocore.session.get_session().create_client("kms", region_name=REGION, endpoint_url=moto)
    return f"awskms:///{service.create_key()['KeyMetadata']['Arn']}"


@pytest.fixture
async def target(control_plane: ControlPlane, client: KubeClient) -> AsyncIterator[str]:
    """The name of a namespace to restore into, which does not exist yet."""
    name = f"target-{secrets.token_hex(4)}"
    yield name
    await erase_namespace(control_plane, client, name)


def config(site: Site, **settings: str) -> JSONObject:
    return {"path": str(site.folder), **settings}


async def configure(site: Site, **settings: str | None) -> None:
    await site.client.patch(
        velero("backupstoragelocations"), "default", {"spec": {"config": settings}}, site.namespace
    )


async def back_up(site: Site, name: str) -> None:
    await site.create("backups", name, spec=site.maps_of())
    backup = await site.reached("backups", name)
    assert backup["status"]["phase"] == "Completed", backup["status"]


async def restored(site: Site, name: str, backup: str, target: str) -> JSONObject:
    spec = {"backupName": backup, "namespaceMapping": {site.namespace: target}}
    await site.create("restores", name, spec=spec)
    status: JSONObject = (await site.reached("restores", name))["status"]
    return status


def sealed(folder: Path, backup: str) -> set[bool]:
    return {
        path.read_bytes().startswith(AGE)
        for path in (folder / "backups" / backup).iterdir()
        if path.suffix == ".gz"
    }


async def test_the_rights_to_a_key_of_a_kms_open_a_backup_without_a_secret(
    site: Site, serve: Serve, kms_key: str, client: KubeClient, target: str
) -> None:
    folder = await site.add_folder(config=config(site, **{"encryption.kms": kms_key}))
    await site.add_maps(a="b")
    await serve()
    await back_up(site, "b1")
    assert sealed(folder, "b1") == {True}

    # The key of a file counts only where the location names it.
    await configure(site, **{"encryption.kms": None})
    status = await restored(site, "r1", "b1", target)
    assert status["phase"] == "Failed"
    assert (
        f"name the key in encryption.kms if you have the right to decrypt by {kms_key}"
        in status["failureReason"]
    )
    with pytest.raises(NotFound):
        await client.get(NAMESPACES, target)
    assert not (folder / "restores/r1").exists()

    await configure(site, **{"encryption.kms": kms_key})
    assert (await restored(site, "r2", "b1", target))["phase"] == "Completed"
    assert (await client.get(CONFIGMAPS, "map-0", target))["data"] == {"a": "b"}


async def test_recipients_that_are_given_and_taken_away_count_from_the_next_backup_on(
    site: Site, serve: Serve, client: KubeClient, target: str
) -> None:
    folder = await site.add_folder()
    await site.add_maps(a="b")
    await serve()
    await back_up(site, "b1")
    await configure(site, **{"encryption.recipients": str(X25519Identity.generate().recipient)})
    await back_up(site, "b2")
    assert (await restored(site, "r1", "b1", target))["phase"] == "Completed"
    await configure(site, **{"encryption.recipients": None})
    await back_up(site, "b3")

    assert [sealed(folder, name) for name in ("b1", "b2", "b3")] == [{False}, {True}, {False}]
    status = await restored(site, "r2", "b2", f"{target}-2")
    assert status["phase"] == "Failed"
    assert "the annotation pinnace.io/identity-secret" in status["failureReason"]
    with pytest.raises(NotFound):
        await client.get(NAMESPACES, f"{target}-2")
    assert not (folder / "restores/r2").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encryption.recipients": "age1mistyped"}, "config.encryption.recipients: "),
        ({"encryption.kms": "kms://x"}, "is not the URI of a key"),
    ],
)
async def test_a_recipient_that_cannot_be_read_makes_the_location_unavailable(
    site: Site, serve: Serve, settings: dict[str, str], said: str
) -> None:
    folder = await site.add_folder(config=config(site, **settings))
    await site.add_maps(a="b")
    await serve()

    location = await site.reached("backupstoragelocations", "default", "Unavailable")
    assert said in location["status"]["message"]
    await site.create("backups", "b1", spec=site.maps_of())
    backup = await site.reached("backups", "b1")
    assert backup["status"]["phase"] == "FailedValidation"
    assert said in " ".join(backup["status"]["validationErrors"])
    assert list(folder.iterdir()) == []

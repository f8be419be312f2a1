"""The password that a server gives the repositories of volumes, and when it warns of it."""

import base64
import logging
import shutil
from pathlib import Path

import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.errors import Forbidden
from pinnace.server.checks import StartupError
from pinnace.server.repository_password import prepare_repository_password
from pinnace.volumes.uploader.passwords import new_password
from tests.support.cluster.scripted_cluster import ScriptedCluster

OLD_NAME, NEW_NAME = "velero-restic-credentials", "velero-repo-credentials"
PUBLIC, RANDOM = b"static-passw0rd", b"made at random"


async def prepared(cluster: ScriptedCluster, folder: Path) -> dict[str, bytes]:
    """The passwords in the Secrets after the start of a server."""
    stores = LocationStores(cluster.client, "velero", folder / "credentials")
    await prepare_repository_password(cluster.client, "velero", stores, make_password=lambda: RANDOM)
    return {
        name: base64.b64decode(cluster.stored("secrets", name)["data"]["repository-password"])
        for name in (OLD_NAME, NEW_NAME)
    }


def with_secret(name: str, password: bytes, cluster: ScriptedCluster | None = None) -> ScriptedCluster:
    data = {"repository-password": base64.b64encode(password).decode()}
    return (cluster or ScriptedCluster()).add_all("secrets", name, data=data)


def with_location(folder: Path, *, directory: str = "", tenant: str = "") -> ScriptedCluster:
    """A cluster with a location in a folder, which has this directory."""
    inside = folder / "bucket" / directory
    inside.mkdir(parents=True, exist_ok=True)
    (inside / "a").write_text("b")
    spec = {
        "provider": "pinnace.io/filesystem",
        "config": {"path": str(folder)},
        "objectStorage": {"bucket": "bucket"},
    }
    notes = {Origin.LOCATION.namespace_annotation: tenant} if tenant else {}
    return ScriptedCluster().add_all("backupstoragelocations", "default", spec=spec, annotations=notes)


def test_random_passwords_differ_and_are_long() -> None:
    made = {new_password() for _ in range(3)}
    assert len(made) == 3
    assert all(len(each) >= 43 and each.isascii() and each.strip() == each for each in made)


@pytest.mark.parametrize("directory", ["", "backups"], ids=["empty", "backups only"])
async def test_a_new_installation_gets_a_random_password_without_a_warning(
    directory: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = await prepared(with_location(tmp_path, directory=directory), tmp_path)
    assert found == {OLD_NAME: RANDOM, NEW_NAME: RANDOM}
    assert caplog.records == []


@pytest.mark.parametrize("directory", ["restic", "kopia"])
async def test_existing_repositories_keep_the_public_password_which_is_warned_of(
    directory: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = await prepared(with_location(tmp_path, directory=f"{directory}/shop"), tmp_path)
    assert found == {OLD_NAME: PUBLIC, NEW_NAME: PUBLIC}
    why, public = [record.getMessage() for record in caplog.records]
    assert "repositories of volumes in location default" in why
    assert "public default password" in public


async def test_a_known_repository_keeps_the_public_password(tmp_path: Path) -> None:
    cluster = ScriptedCluster().add_all("backuprepositories", "shop-default-kopia-x")
    assert (await prepared(cluster, tmp_path))[NEW_NAME] == PUBLIC


async def test_a_location_that_cannot_be_read_does_not_choose_the_public_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = with_location(tmp_path)
    shutil.rmtree(tmp_path / "bucket")
    with caplog.at_level(logging.WARNING):
        assert (await prepared(cluster, tmp_path))[NEW_NAME] == RANDOM
    [said] = caplog.records
    assert "could not be looked into" in said.getMessage()


@pytest.mark.spec("SRV-009")
@pytest.mark.parametrize(("there", "missing"), [(OLD_NAME, NEW_NAME), (NEW_NAME, OLD_NAME)])
@pytest.mark.parametrize("password", [b"own", PUBLIC])
async def test_an_existing_password_is_kept_and_copied_under_the_other_name(
    there: str, missing: str, password: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = with_secret(there, password)
    with caplog.at_level(logging.WARNING):
        assert await prepared(cluster, tmp_path) == {there: password, missing: password}
    assert [secret["metadata"]["name"] for secret in cluster.sent.values()] == [missing]
    assert bool(caplog.records) is (password == PUBLIC)


async def test_the_password_of_a_server_that_starts_at_the_same_time_is_taken(tmp_path: Path) -> None:
    cluster = ScriptedCluster()

    def other_server(verb: str, _plural: str, name: str) -> None:
        if verb == "create" and name == OLD_NAME:
            with_secret(OLD_NAME, b"theirs", cluster)

    cluster.before = other_server
    assert await prepared(cluster, tmp_path) == {OLD_NAME: b"theirs", NEW_NAME: b"theirs"}


async def test_a_tenant_does_not_choose_the_public_password(tmp_path: Path) -> None:
    cluster = with_location(tmp_path, directory="kopia", tenant="shop")
    assert (await prepared(cluster, tmp_path))[NEW_NAME] == RANDOM


@pytest.mark.spec("SRV-009")
@pytest.mark.parametrize("verb", ["get", "create"])
async def test_a_password_that_cannot_be_read_or_created_stops_the_start(verb: str, tmp_path: Path) -> None:
    cluster = ScriptedCluster()
    cluster.refuse(verb, "secrets", Forbidden(403, reason="Forbidden", message="you may not"))
    with pytest.raises(StartupError, match="Secret velero/velero-restic-credentials cannot be read or made"):
        await prepared(cluster, tmp_path)

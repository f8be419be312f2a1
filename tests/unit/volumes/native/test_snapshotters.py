"""Providers of snapshots are opened with the credentials of their locations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from pinnace.api.velero.storage_location import SecretKeySelector
from pinnace.storage.errors import StoreConfigError
from pinnace.volumes.native.snapshotters import SnapshotError, Snapshotter, Snapshotters
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE

CREDENTIAL = {"name": "other-account", "key": "cloud"}


class Provider:
    """Remembers its configuration."""

    def __init__(self) -> None:
        self.config: Mapping[str, str] = {}

    async def init(self, config: Mapping[str, str]) -> None:
        self.config = config


async def saved(selector: SecretKeySelector) -> Path:
    return Path("/private") / f"{selector.name}-{selector.key}"


async def missing(_selector: SecretKeySelector) -> Path:
    raise StoreConfigError('Secret "other-account" not found')


def opened(provider: Provider, credentials: Any, **spec: Any) -> Snapshotters:
    cluster = ScriptedCluster()
    cluster.add("volumesnapshotlocations", "v1", spec={"provider": "p", "config": {"region": "r"}, **spec})
    return Snapshotters(
        cluster.client, NAMESPACE, lambda _name: cast("Snapshotter", provider), credentials=credentials
    )


async def test_the_file_of_its_own_credential_is_part_of_the_configuration() -> None:
    own, common = Provider(), Provider()

    await opened(own, saved, credential=CREDENTIAL).of("v1")
    await opened(common, saved, credential=None).of("v1")

    assert own.config == {"region": "r", "credentialsFile": "/private/other-account-cloud"}
    assert common.config == {"region": "r"}


@pytest.mark.parametrize(
    ("credentials", "problem"),
    [(missing, 'location v1: Secret "other-account" not found'), (None, "only by a server")],
)
async def test_a_missing_credential_is_not_replaced_by_others(credentials: Any, problem: str) -> None:
    provider = Provider()

    with pytest.raises(SnapshotError, match=problem):
        await opened(provider, credentials, credential=CREDENTIAL).of("v1")

    assert provider.config == {}


class NoCredentials(Provider):
    """A provider that looks for credentials where it was not told of any."""

    async def init(self, config: Mapping[str, str]) -> None:
        if "credentialsFile" not in config:
            raise StoreConfigError("no credentials")


@pytest.mark.spec("AFT-166")
async def test_a_file_that_the_location_names_is_ignored_and_said_to_be() -> None:
    named = {"config": {"region": "r", "credentialsFile": "/etc/passwd"}}
    provider = Provider()
    await opened(provider, saved, **named).of("v1")
    assert provider.config == {"region": "r"}

    with pytest.raises(SnapshotError, match=r"config\.credentialsFile is ignored.*: no credentials"):
        await opened(NoCredentials(), saved, **named).of("v1")

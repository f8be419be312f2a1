"""Which restic repositories an agent uses with the keys of a tenant's location. (docs/spec: NAC 17 A34)"""

from pathlib import Path
from typing import Any, cast

import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import SECRETS, APIResource
from pinnace.volumes.restic.access import AccessProvider, Repository
from pinnace.volumes.restic.errors import AccessError

OWN = "s3:http://evil:9000/bucket/evil/restic/evil"
AWS = "s3:s3-eu-west-1.amazonaws.com/bucket/evil/restic/evil"


class Cluster:
    """One location, and the password of all repositories."""

    def __init__(self, *, tenant: str, endpoint: str) -> None:
        self._notes = {Origin.LOCATION.namespace_annotation: tenant} if tenant else {}
        self._config = {"region": "r", **({"s3Url": endpoint} if endpoint else {})}

    async def get(self, resource: APIResource, name: str, namespace: str) -> dict[str, Any]:
        if resource == SECRETS:
            return {"metadata": {"name": name}, "data": {"repository-password": "cGFzcw=="}}
        store = {"bucket": "bucket", "prefix": "evil"}
        spec = {"provider": "aws", "config": self._config, "objectStorage": store}
        metadata = {"name": name, "namespace": namespace, "annotations": self._notes}
        return {
            "apiVersion": "velero.io/v1",
            "kind": "BackupStorageLocation",
            "metadata": metadata,
            "spec": spec,
        }


async def opened(
    folder: Path, identifier: str, *, source: str = "", tenant: str = "evil", endpoint: str
) -> None:
    client = cast("KubeClient", Cluster(tenant=tenant, endpoint=endpoint))
    accesses = AccessProvider(client, "velero", folder, inherited={})
    place = Repository(identifier=identifier, location="l", source=source)
    async with accesses.open(place) as access:
        assert access.files.identifier == identifier


@pytest.mark.parametrize(
    ("identifier", "source", "endpoint"),
    [(OWN, "", "http://evil:9000"), (OWN, "evil", "http://evil:9000"), (AWS, "evil", "")],
)
async def test_a_tenants_own_repository_is_used(
    tmp_path: Path, identifier: str, source: str, endpoint: str
) -> None:
    await opened(tmp_path, identifier, source=source, endpoint=endpoint)


@pytest.mark.parametrize(
    ("identifier", "source", "endpoint"),
    [
        (OWN, "victim", "http://evil:9000"),
        ("s3:http://evil:9000/bucket/evil/restic/victim", "victim", "http://evil:9000"),
        ("s3:http://elsewhere:9000/bucket/evil/restic/evil", "evil", "http://evil:9000"),
        ("/host_pods/x", "evil", "http://evil:9000"),
        ("", "evil", "http://evil:9000"),
        (AWS, "victim", ""),
        ("s3:s3.amazonaws.com/other/evil/restic/evil", "evil", ""),
        ("s3:s3.evil.com/bucket/evil/restic/evil", "evil", ""),
    ],
)
async def test_nothing_else_is(tmp_path: Path, identifier: str, source: str, endpoint: str) -> None:
    with pytest.raises(AccessError, match="belongs to the namespace evil"):
        await opened(tmp_path, identifier, source=source, endpoint=endpoint)


async def test_the_administrators_location_holds_those_of_all(tmp_path: Path) -> None:
    for identifier in (OWN, "s3:http://old-name/bucket/restic/shop"):
        await opened(tmp_path, identifier, source="shop", tenant="", endpoint="http://evil:9000")

"""Which restic repositories an agent uses with the keys of a tenant's location. (docs/spec: NAC 17 A34)"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pinnace.api.nonadmin.names import ALLOWED_ENDPOINTS_ANNOTATION, Origin
from pinnace.kube.resources import NODES, SECRETS
from pinnace.volumes.restic.access import restic_access
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.errors import AccessError
from tests.support.cluster.scripted_cluster import ScriptedCluster

NODE = "93.184.216.34"
OWN = "s3:http://evil:9000/bucket/evil/restic/evil"
AWS = "s3:s3-eu-west-1.amazonaws.com/bucket/evil/restic/evil"


def cluster_of(*, tenant: str, endpoint: str, allowed: str) -> ScriptedCluster:
    """A cluster with one location, and the password of all repositories."""
    notes = {ALLOWED_ENDPOINTS_ANNOTATION: allowed}
    if tenant:
        notes[Origin.LOCATION.namespace_annotation] = tenant
    config = {"region": "r", **({"s3Url": endpoint} if endpoint else {})}
    store = {"bucket": "bucket", "prefix": "evil"}
    cluster = ScriptedCluster()
    cluster.add(
        "backupstoragelocations",
        "l",
        annotations=notes,
        spec={"provider": "aws", "config": config, "objectStorage": store},
    )
    for name in ("velero-restic-credentials", "velero-repo-credentials"):
        cluster.add(SECRETS, name, data={"repository-password": "cGFzcw=="})
    addresses = [{"type": "ExternalIP", "address": NODE}, {"type": "Hostname", "address": "node-1"}]
    cluster.add(NODES, "node-1", status={"addresses": addresses})
    return cluster


async def opened(
    folder: Path,
    identifier: str,
    *,
    source: str = "",
    tenant: str = "evil",
    endpoint: str,
    allowed: str = "evil",
    inherited: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    client = cluster_of(tenant=tenant, endpoint=endpoint, allowed=allowed).client
    accesses = AccessProvider(client, "velero", folder, inherited=inherited or {})
    place = Repository(identifier=identifier, location="l", source=source)
    async with restic_access(accesses, place) as access:
        assert access.identifier == identifier
        return access.environment


@pytest.mark.parametrize(
    ("identifier", "source", "endpoint"),
    [(OWN, "", "http://evil:9000"), (OWN, "evil", "http://evil:9000"), (AWS, "evil", "")],
)
async def test_a_tenants_own_repository_is_used(
    tmp_path: Path, identifier: str, source: str, endpoint: str
) -> None:
    environment = await opened(tmp_path, identifier, source=source, endpoint=endpoint)
    assert environment == {"RESTIC_PROGRESS_FPS": "1"}, "nothing of the server's own"


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
async def test_a_repository_elsewhere_is_not_used(
    tmp_path: Path, identifier: str, source: str, endpoint: str
) -> None:
    with pytest.raises(AccessError, match="belongs to the namespace evil"):
        await opened(tmp_path, identifier, source=source, endpoint=endpoint)


async def test_the_administrators_location_has_repositories_of_all_tenants(tmp_path: Path) -> None:
    for identifier in (OWN, "s3:http://old-name/bucket/restic/shop"):
        environment = await opened(
            tmp_path, identifier, source="shop", tenant="", endpoint="http://evil:9000"
        )
        assert environment == {"RESTIC_PROGRESS_FPS": "1"}, identifier


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "0x7f.1", "localhost", "169.254.169.254", "[::1]", "10.0.0.1", NODE]
)
async def test_an_internal_endpoint_is_not_given_to_restic(tmp_path: Path, host: str) -> None:
    endpoint = f"http://{host}:9000"
    identifier = f"s3:{endpoint}/bucket/evil/restic/evil"
    with pytest.raises(AccessError, match="internal network"):
        await opened(tmp_path, identifier, endpoint=endpoint)
    await opened(
        tmp_path,
        identifier,
        endpoint=endpoint,
        allowed="127.0.0.0/8,10.0.0.1,169.254.169.254,::1,localhost," + NODE,
    )
    await opened(tmp_path, identifier, endpoint=endpoint, tenant="")


async def test_restic_gets_no_proxy_for_a_tenants_repository(tmp_path: Path) -> None:
    proxies = {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "http://proxy:3128", "NO_PROXY": "x"}
    mine = await opened(tmp_path, OWN, endpoint="http://evil:9000", inherited=proxies)
    assert not proxies.keys() & mine.keys()
    ours = await opened(tmp_path, OWN, endpoint="http://evil:9000", inherited=proxies, tenant="")
    assert proxies.items() <= ours.items()

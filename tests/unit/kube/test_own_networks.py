"""The cluster's own public addresses, to which connections for tenants do not go."""

import ipaddress

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import ConnectionFailed
from pinnace.kube.own_networks import OwnNetworks
from pinnace.kube.resources import ENDPOINT_SLICES, NODES, SERVICE_CIDRS
from tests.support.clock import FakeClock
from tests.support.cluster.scripted_cluster import ScriptedCluster

NODE: JSONObject = {
    "status": {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.4"},
            {"type": "ExternalIP", "address": "93.184.216.34"},
            {"type": "Hostname", "address": "node-1"},
        ]
    },
    "spec": {"podCIDRs": ["10.244.0.0/24", "2606:4700:1::/64"]},
}
SLICE: JSONObject = {"endpoints": [{"addresses": ["93.184.216.99"]}]}


@pytest.fixture
def cluster() -> ScriptedCluster:
    made = ScriptedCluster()
    made.server = "https://93.184.216.1:6443"
    made.add(NODES, "node-1", **NODE)
    made.add(NODES, "node-2")
    made.add(SERVICE_CIDRS, "all", spec={"cidrs": ["10.96.0.0/16", "2606:4700:2::/112"]})
    made.add(ENDPOINT_SLICES, "a", "default", labels={"kubernetes.io/service-name": "kubernetes"}, **SLICE)
    return made


def texts(found: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]) -> list[str]:
    return [str(each) for each in found]


async def test_public_addresses_of_nodes_pods_services_and_api_server_are_found(
    cluster: ScriptedCluster,
) -> None:
    clock = FakeClock(0.0)
    own = OwnNetworks(cluster.client, clock=clock)
    everything = [
        "93.184.216.34/32",
        "2606:4700:1::/64",
        "2606:4700:2::/112",
        "93.184.216.99/32",
        "93.184.216.1/32",
    ]

    assert texts(await own.get()) == everything
    clock.time = 599.0
    assert texts(await own.get()) == everything
    assert len(cluster.requests) == 3

    for name in cluster.names(NODES):
        cluster.vanish(NODES, name, "")
    clock.time = 600.0
    assert texts(await own.get()) == everything[2:]


async def test_what_cannot_be_read_is_kept_and_asked_for_soon_again(cluster: ScriptedCluster) -> None:
    clock = FakeClock(0.0)
    own = OwnNetworks(cluster.client, clock=clock)
    before = await own.get()
    cluster.refuse("list", NODES.name, ConnectionFailed("away"))
    cluster.unserved = {(SERVICE_CIDRS.name, "v1")}

    clock.time = 600.0
    assert texts(await own.get()) == [text for text in texts(before) if not text.startswith("2606:4700:2")]
    cluster.relent()
    cluster.unserved = set()
    clock.time = 661.0
    assert await own.get() == before

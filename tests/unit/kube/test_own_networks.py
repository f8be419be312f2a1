"""The cluster's own public addresses, to which connections for tenants do not go."""

import ipaddress
from typing import Any, cast

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, KubeError, NotFound
from pinnace.kube.own_networks import OwnNetworks
from pinnace.kube.resources import ENDPOINT_SLICES, NODES, SERVICE_CIDRS, APIResource

NODE = {
    "status": {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.4"},
            {"type": "ExternalIP", "address": "93.184.216.34"},
            {"type": "Hostname", "address": "node-1"},
        ]
    },
    "spec": {"podCIDRs": ["10.244.0.0/24", "2606:4700:1::/64"]},
}
SLICE = {"endpoints": [{"addresses": ["93.184.216.99"]}]}


class Cluster:
    """Lists of what is asked for."""

    server = "https://93.184.216.1:6443"

    def __init__(self) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {
            NODES.name: [NODE, {}],
            SERVICE_CIDRS.name: [{"spec": {"cidrs": ["10.96.0.0/16", "2606:4700:2::/112"]}}],
            ENDPOINT_SLICES.name: [SLICE],
        }
        self.errors: dict[str, KubeError] = {}
        self.calls = 0

    async def list_all(self, resource: APIResource, *_: str, **__: str) -> list[dict[str, Any]]:
        self.calls += 1
        if error := self.errors.get(resource.name):
            raise error
        return self.lists[resource.name]


def texts(found: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]) -> list[str]:
    return [str(each) for each in found]


async def test_public_addresses_of_nodes_pods_services_and_api_server_are_found() -> None:
    cluster, now = Cluster(), [0.0]
    own = OwnNetworks(cast("KubeClient", cluster), clock=lambda: now[0])
    everything = [
        "93.184.216.34/32",
        "2606:4700:1::/64",
        "2606:4700:2::/112",
        "93.184.216.99/32",
        "93.184.216.1/32",
    ]

    assert texts(await own.get()) == everything
    now[0] = 599.0
    assert texts(await own.get()) == everything
    assert cluster.calls == 3

    cluster.lists[NODES.name] = []
    now[0] = 600.0
    assert texts(await own.get()) == everything[2:]


async def test_what_cannot_be_read_is_kept_and_asked_for_soon_again() -> None:
    cluster, now = Cluster(), [0.0]
    own = OwnNetworks(cast("KubeClient", cluster), clock=lambda: now[0])
    before = await own.get()
    cluster.errors = {
        NODES.name: ConnectionFailed("away"),
        SERVICE_CIDRS.name: NotFound(code=404, reason="NotFound", message="no such kind"),
    }

    now[0] = 600.0
    assert texts(await own.get()) == [text for text in texts(before) if not text.startswith("2606:4700:2")]
    cluster.errors.clear()
    now[0] = 661.0
    assert await own.get() == before

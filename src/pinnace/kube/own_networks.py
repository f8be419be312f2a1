"""The cluster's own public addresses: of nodes, pods, Services and the API server.

Connections to a tenant's endpoint must not lead there. Private addresses are refused anyway, so only public
ones are collected: of clusters with public IPv6 addresses for pods, and of nodes with public addresses.
"""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import ENDPOINT_SLICES, NODES, SERVICE_CIDRS

log = logging.getLogger(__name__)

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

KEPT_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 60.0
_RESOLVE_SECONDS: Final = 5.0


class OwnNetworks:
    """Reads the cluster's public networks on demand, at most once in ten minutes.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[IPNetwork, ...]] = {}
        self._until = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self) -> tuple[IPNetwork, ...]:
        """The networks; where reading fails, the networks that were read last."""
        async with self._lock:
            if self._clock.monotonic() >= self._until:
                complete = await self._read()
                self._until = self._clock.monotonic() + (KEPT_SECONDS if complete else RETRY_SECONDS)
            return tuple(dict.fromkeys(each for found in self._known.values() for each in found))

    async def _read(self) -> bool:
        complete = True
        for what, read in (
            ("nodes", self._of_nodes),
            ("service networks", self._of_services),
            ("addresses of the API server", self._of_api_server),
        ):
            try:
                self._known[what] = tuple(_public(await read()))
            except NotFound:
                self._known[what] = ()  # older API servers do not serve the kind
            except (KubeError, OSError, TimeoutError) as error:
                complete = False
                log.warning(
                    "The cluster's own public networks could not be read: connections to tenants' locations"
                    " may lead there",
                    extra={"fields": {"what": what, "error": error}},
                )
        return complete

    async def _of_nodes(self) -> list[object]:
        found: list[object] = []
        for node in await self._client.list_all(NODES):
            found.extend(each.get("address") for each in _listed(node, "status", "addresses"))
            found.extend(_listed(node, "spec", "podCIDRs"))
        return found

    async def _of_services(self) -> list[object]:
        objects = await self._client.list_all(SERVICE_CIDRS)
        return [cidr for each in objects for cidr in _listed(each, "spec", "cidrs")]

    async def _of_api_server(self) -> list[object]:
        objects = await self._client.list_all(
            ENDPOINT_SLICES, "default", label_selector="kubernetes.io/service-name=kubernetes"
        )
        slices = [endpoint for each in objects for endpoint in _listed(each, "endpoints")]
        found: list[object] = [address for each in slices for address in _listed(each, "addresses")]
        host = urlsplit(self._client.server).hostname
        async with asyncio.timeout(_RESOLVE_SECONDS):
            resolved = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [*found, *(address[4][0] for address in resolved)]


def _listed(obj: Any, *path: str) -> list[Any]:
    for name in path:
        obj = (obj.get(name) if isinstance(obj, dict) else None) or {}
    return obj if isinstance(obj, list) else []


def _public(texts: Iterable[object]) -> Iterator[IPNetwork]:
    """The public networks and addresses among the texts; host names, which nodes have too, are left out."""
    for text in texts:
        try:
            network = ipaddress.ip_network(str(text), strict=False)
        except ValueError:
            continue
        if network.is_global:
            yield network

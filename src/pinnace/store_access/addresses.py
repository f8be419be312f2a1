"""The addresses that connections to a tenant's store may have. Pure. (docs/spec: NAC 17 A20, docs/adr/025)

A tenant names the endpoint and the server connects to it, from inside the cluster and past every network
policy that restricts the tenant's own pods. So only public addresses are allowed, and none of the cluster's
own, unless the administrator allows a network or a host. The address that a name resolves to at the moment of
the connection is checked, not the spelling of the endpoint.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pinnace.api.nonadmin.names import ALLOWED_ENDPOINTS_ANNOTATION, tenant_of
from pinnace.api.values.digits import is_digits
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.store_access.errors import StoreConfigError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST: Final = re.compile(r"(?=.{1,253}$)[-a-z0-9_]+(\.[-a-z0-9_]+)*")
_EMBEDDING: Final = tuple(
    (ipaddress.IPv6Network(network), low_bits)
    for network, low_bits in (
        ("::/96", 0),  # IPv4-compatible
        ("::ffff:0:0/96", 0),  # IPv4-mapped
        ("::ffff:0:0:0/96", 0),  # IPv4-translated
        ("64:ff9b::/96", 0),  # NAT64
        ("2002::/16", 80),  # 6to4
    )
)
"""Networks whose addresses hold an IPv4 address, and its distance in bits from the end."""

_NEVER_PUBLIC: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        "64:ff9b:1::/48",  # NAT64 of a local network
        "192.88.99.0/24",  # relays of 6to4
        "2001::/32",  # Teredo, whose addresses hide a relay's and a client's
        "fec0::/10",  # site-local
    )
)
"""Not public, but not recognised by the standard library of every version."""


class AddressRefused(StoreConfigError):
    """The endpoint of a tenant's store has an address that only the administrator can allow."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the host {host[:253]!r} has an address in a private or otherwise internal network; the server"
            " connects to none for locations of tenants. An administrator can allow the host or the network"
            " by allowedEndpoints in the settings of self-service"
        )


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses that connections may go to.

    Attributes:
        networks, hosts: allowed by the administrator; a host with all names below it.
        own: networks of the cluster itself, which are refused even if they are public.
    """

    networks: Sequence[IPNetwork] = ()
    hosts: Sequence[str] = ()
    own: Sequence[IPNetwork] = ()

    def check(self, host: str, addresses: Iterable[str]) -> None:
        """Raise AddressRefused unless connections to all addresses of a host are allowed."""
        if self.allows_host(host):
            return
        if not all(self._is_allowed(address) for address in addresses):
            raise AddressRefused(host)

    def check_literal(self, host: str) -> None:
        """Raise AddressRefused for a host that is `localhost`, or an address that is not allowed."""
        name = host.rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost"):
            self.check(host, ["127.0.0.1"])
        elif (address := literal_address(host)) is not None:
            self.check(host, [str(address)])

    def allows_host(self, host: str) -> bool:
        """Whether the administrator allows a host by its name, whatever its addresses."""
        name = host.rstrip(".").lower()
        return any(name == allowed or name.endswith(f".{allowed}") for allowed in self.hosts)

    def _is_allowed(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return False
        embedded = _embedded(address)
        forms = (address, *embedded)
        if any(form in network for form in forms for network in self.networks):
            return True
        # With an embedded IPv4 address, the connection goes to that address.
        return all(is_public(form) for form in embedded or forms) and not any(
            form in network for form in forms for network in self.own
        )


def is_public(address: IPAddress) -> bool:
    """Whether an address is public, by the registries of special networks."""
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or any(address in network for network in _NEVER_PUBLIC)
    )


def _embedded(address: IPAddress) -> tuple[IPAddress, ...]:
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    return tuple(
        ipaddress.IPv4Address(int(address) >> low_bits & 0xFFFFFFFF)
        for network, low_bits in _EMBEDDING
        if address in network
    )


def literal_address(host: str) -> IPAddress | None:
    """The address that a host is, in any spelling that resolvers accept; None for a name.

    `127.1`, `2130706433`, `0x7f000001` and `0177.0.0.1` are 127.0.0.1.
    """
    bare = host.strip("[]").partition("%")[0].rstrip(".")
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        pass
    if not re.fullmatch(r"[0-9a-fA-FxX.]+", bare):
        return None  # the function below ends at a blank and takes whatever follows it
    try:
        return ipaddress.IPv4Address(socket.inet_aton(bare))
    except OSError:
        return None


def parse_allowed(entries: Iterable[str], own: Sequence[IPNetwork] = ()) -> Addresses:
    """The addresses that an administrator's list allows.

    Args:
        entries: addresses, networks such as `10.1.0.0/16`, or names of hosts.

    Raises:
        ValueError: an entry is none of them; the text names it.
    """
    networks: list[IPNetwork] = []
    hosts: list[str] = []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry))
            continue
        except ValueError:
            host = entry.lower().removesuffix(".")
        if literal_address(host) is not None or not _HOST.fullmatch(host) or is_digits(host.replace(".", "")):
            raise ValueError(
                f"{entry[:253]!r} is not an address, a network such as 10.1.0.0/16, or the name of a host"
            )
        hosts.append(host)
    return Addresses(networks=tuple(networks), hosts=tuple(hosts), own=tuple(own))


def addresses_of(location: BackupStorageLocation, own: Sequence[IPNetwork] = ()) -> Addresses | None:
    """The addresses that connections to a location's store may have; None, for any, if it is no tenant's.

    Args:
        own: networks of the cluster itself.

    Raises:
        StoreConfigError: what the location's annotation allows cannot be read.
    """
    if not tenant_of(location.metadata):
        return None
    allowed = location.metadata.annotations.get(ALLOWED_ENDPOINTS_ANNOTATION, "")
    try:
        return parse_allowed(filter(None, allowed.split(",")), own)
    except ValueError as error:
        raise StoreConfigError(f"annotation {ALLOWED_ENDPOINTS_ANNOTATION}: {error}") from error

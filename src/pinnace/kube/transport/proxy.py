"""Finds the HTTP proxy for a server: kubeconfig's `proxy-url`, else the environment.

The environment is read by the rules of Go programs, so that the same variables work for kubectl and Pinnace.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from pinnace.kube.errors import ConfigError
from pinnace.kube.transport.credentials import basic

_IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_proxy_url(url: str, origin: str) -> str:
    """Return the URL, with `http://` in front if it has no scheme.

    Raises:
        ConfigError: if it is no URL of an HTTP proxy; the text omits the URL, as it may hold a
            password.
    """
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # Without the cause, whose text quotes the URL.
        raise ConfigError(f"{origin}: not a valid URL") from None
    if parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"{origin}: proxies of type {parts.scheme!r} are not supported, only http and https"
        )
    if not parts.hostname:
        raise ConfigError(f"{origin}: the URL names no host")
    return url


def environment_proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that HTTPS_PROXY or HTTP_PROXY names for `server`, unless NO_PROXY exempts it.

    Raises:
        ConfigError: if the variable is set for this server, but not to the URL of an HTTP proxy.
    """
    parts = urlsplit(server)
    variable = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    url = environ.get(variable) or environ.get(variable.lower()) or ""
    if not url:
        return None
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_local(host) or any(_exempts(entry, host, port) for entry in no_proxy.lower().split(",")):
        return None
    return check_proxy_url(url, variable)


def split_proxy(url: str | None) -> tuple[str | None, dict[str, str] | None]:
    """The proxy's URL without user and password, and the header that carries these instead.

    The HTTP library's errors quote the URL, so it must not hold the password.
    """
    if url is None:
        return None, None
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    credentials = basic(unquote(parts.username), unquote(parts.password or ""))
    return bare, {"Proxy-Authorization": credentials.authorization}


def _is_local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _exempts(entry: str, host: str, port: int) -> bool:
    entry = entry.strip()
    if not entry:
        return False
    # 1. everything, or a range of addresses
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        network = _network(entry)
        return network is not None and address is not None and address in network
    # 2. one address, or one name, each perhaps with a port
    pattern, wanted_port = _split_port(entry)
    if wanted_port and wanted_port != str(port):
        return False
    pattern_address = _address(pattern)
    if pattern_address is not None:
        return address == pattern_address
    pattern = pattern.removeprefix("*")
    if pattern.startswith("."):
        return host.endswith(pattern)
    return host == pattern or host.endswith(f".{pattern}")


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":")
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port
    return entry, ""


def _address(text: str) -> _IPAddress | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None

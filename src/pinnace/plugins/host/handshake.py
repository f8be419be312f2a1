"""How a program is started as a plugin, and the line of its answer. (docs/spec: PLG 3, 4)

Pure, except for reading the environment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinnace.api.values.digits import is_digits
from pinnace.plugins.errors import PluginStartError

COOKIE: Final = ("VELERO_PLUGIN", "hello")
"""A variable that tells a plugin that a host started it, not a user."""

CORE_VERSION: Final = "1"
APP_VERSION: Final = "2"
_CERTIFICATE_LENGTH: Final = 50
_SHOWN_LENGTH: Final = 200

_HOST_VARIABLES: Final = {
    COOKIE[0]: COOKIE[1],
    "PLUGIN_PROTOCOL_VERSIONS": APP_VERSION,
    "PLUGIN_MIN_PORT": "10000",
    "PLUGIN_MAX_PORT": "25000",
}
# If this process is itself a plugin, its host has set them; they would promise what we do not do.
_NOT_OURS: Final = ("PLUGIN_CLIENT_CERT", "PLUGIN_MULTIPLEX_GRPC", "PLUGIN_UNIX_SOCKET_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a plugin listens.

    Attributes:
        target: as gRPC takes it.
        socket: the path of a unix socket, None for TCP.
    """

    target: str
    socket: str | None = None


def plugin_arguments(*, log_level: str, features: Iterable[str]) -> list[str]:
    """The arguments of a plugin's program. (docs/spec: PLG-007)"""
    arguments = ["--log-level", log_level]
    if flags := sorted(features):
        arguments += ["--features", ",".join(flags)]
    return arguments


def without_features(arguments: Sequence[str]) -> list[str]:
    """The arguments for a plugin that does not know `--features`. (docs/spec: PLG-008)"""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--features":
            next(rest, None)
        else:
            kept.append(argument)
    return kept


def plugin_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment and what makes a program a plugin."""
    inherited = {name: value for name, value in environ.items() if name not in _NOT_OURS}
    return inherited | _HOST_VARIABLES


def parse_handshake(line: str) -> Address:
    """Read the first line of a plugin's standard output.

    Raises:
        PluginStartError: it is not such a line, or names a protocol that we do not know.
    """
    parts = line.strip().split("|")
    if len(parts) < 4:
        raise PluginStartError(
            f"Unrecognized remote plugin message: {line.strip()[:_SHOWN_LENGTH]!r}. This is not a plugin for"
            " Velero, or something else than the plugin's handshake is the first line of its standard output"
        )
    core, app, network, address = parts[:4]
    protocol = parts[4] if len(parts) > 4 else "netrpc"
    if core != CORE_VERSION:
        raise PluginStartError(
            f"Incompatible core API version with plugin. Plugin version: {core}, ours: {CORE_VERSION}"
        )
    if app != APP_VERSION:
        raise PluginStartError(
            f"Incompatible API version with plugin. Plugin version: {app}, Client versions: [{APP_VERSION}]"
        )
    if protocol != "grpc":
        raise PluginStartError(f"Unsupported plugin protocol {protocol!r}: only grpc is supported")
    if len(parts) > 5 and len(parts[5]) > _CERTIFICATE_LENGTH:
        raise PluginStartError("the plugin wants TLS, which was not asked for")
    return _address(network, address)


def _address(network: str, address: str) -> Address:
    if network == "unix" and address.startswith("/"):
        return Address(target=f"unix:{address}", socket=address)
    if network == "tcp":
        host, _, port = address.rpartition(":")
        # Nothing is encrypted: what is not on this machine is no plugin of ours.
        if host in ("127.0.0.1", "localhost", "[::1]") and is_digits(port):
            return Address(target=address)
    raise PluginStartError(f"the plugin listens on {network!r} {address!r}, where it cannot be called")

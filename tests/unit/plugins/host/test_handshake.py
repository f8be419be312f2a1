"""Starting a program as a plugin, and the line with which it answers."""

import pytest

from pinnace.plugins.errors import PluginStartError
from pinnace.plugins.host.handshake import (
    parse_handshake,
    plugin_arguments,
    plugin_environment,
    without_features,
)


@pytest.mark.spec("PLG-007")
def test_arguments_have_the_log_level_and_the_features() -> None:
    assert plugin_arguments(log_level="info", features=()) == ["--log-level", "info"]
    assert plugin_arguments(log_level="debug", features={"feature2", "feature1"}) == [
        "--log-level",
        "debug",
        "--features",
        "feature1,feature2",
    ]


@pytest.mark.spec("PLG-008")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("--log-level debug --features EnableCSI --x y", "--log-level debug --x y"),
        ("--features a --x y", "--x y"),
        ("--x y --features a", "--x y"),
        ("--features a", ""),
        ("--x y", "--x y"),
    ],
    ids=["between", "first", "last", "only", "absent"],
)
def test_features_are_removed_from_the_arguments(given: str, kept: str) -> None:
    assert without_features(given.split()) == kept.split()


def test_the_environment_is_inherited_without_promises_of_another_host() -> None:
    environment = plugin_environment({"AWS_PROFILE": "x", "PLUGIN_CLIENT_CERT": "y"})

    assert environment == {
        "AWS_PROFILE": "x",
        "VELERO_PLUGIN": "hello",
        "PLUGIN_PROTOCOL_VERSIONS": "2",
        "PLUGIN_MIN_PORT": "10000",
        "PLUGIN_MAX_PORT": "25000",
    }


@pytest.mark.spec("PLG-009")
@pytest.mark.parametrize(
    ("line", "target", "socket"),
    [
        ("1|2|unix|/s|grpc|\n", "unix:/s", "/s"),
        ("1|2|unix|/s|grpc", "unix:/s", "/s"),
        ("1|2|tcp|127.0.0.1:5|grpc", "127.0.0.1:5", None),
        ("1|2|unix|/s|grpc||true", "unix:/s", "/s"),
    ],
    ids=["six fields", "five fields", "tcp", "seven fields"],
)
def test_a_valid_line_gives_the_address(line: str, target: str, socket: str | None) -> None:
    address = parse_handshake(line)

    assert (address.target, address.socket) == (target, socket)


@pytest.mark.spec("PLG-009")
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1|1|unix|/s|grpc", r"Incompatible API version.*Plugin version: 1, Client versions: \[2\]"),
        ("2|2|unix|/s|grpc", "Incompatible core API version with plugin"),
        ("1|2|unix|/s", "Unsupported plugin protocol 'netrpc'"),
        ("usage: x", "Unrecognized remote plugin message: 'usage: x'"),
        ("", "Unrecognized remote plugin message"),
        ("1|2|pipe|/s|grpc", "cannot be called"),
        ("1|2|unix|relative|grpc", "cannot be called"),
        ("1|2|tcp|10.1.2.3:5|grpc", "cannot be called"),
        ("1|2|tcp|127.0.0.1|grpc", "cannot be called"),
        ("1|2|unix|/s|grpc|" + "A" * 51, "wants TLS"),
    ],
)
def test_an_invalid_line_is_an_error(line: str, problem: str) -> None:
    with pytest.raises(PluginStartError, match=problem):
        parse_handshake(line)

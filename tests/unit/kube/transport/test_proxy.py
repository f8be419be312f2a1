"""Proxies from the environment, as Go's programs choose them."""

import pytest

from pinnace.kube.errors import ConfigError
from pinnace.kube.transport.proxy import environment_proxy

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "proxied"),
    [
        ("https://api.example.com:6443", "", True),
        ("https://api.example.com:6443", "*", False),
        ("https://api.example.com:6443", "other.com, example.com", False),
        ("https://example.com", "example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://api.example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", False),
        ("https://notexample.com", "example.com", True),
        ("https://API.Example.com", "api.EXAMPLE.com", False),
        ("https://api.example.com:6443", "api.example.com:6443", False),
        ("https://api.example.com:6443", "api.example.com:443", True),
        ("https://api.example.com", "api.example.com:443", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://11.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:1", True),
        ("https://[fd00::1]:6443", "fd00::1", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://api.example.com", "10.0.0.0/8,bad/cidr", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
    ],
)
def test_no_proxy(server: str, no_proxy: str, proxied: bool) -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert environment_proxy(server, environ) == (PROXY if proxied else None)


def test_the_variable_fits_the_scheme() -> None:
    environ = {"https_proxy": "http://s", "HTTP_PROXY": "http://p", "http_proxy": "http://small"}
    assert environment_proxy("https://h", environ) == "http://s"
    assert environment_proxy("http://h", environ) == "http://p"
    assert environment_proxy("http://h", {"ALL_PROXY": "http://p"}) is None


def test_a_wrong_variable_is_named_without_its_value() -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY: proxies of type 'socks5'") as caught:
        environment_proxy("https://h", {"HTTPS_PROXY": "socks5://user:s3cret@h"})
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigError, match="names no host"):
        environment_proxy("https://h", {"HTTPS_PROXY": "http://"})

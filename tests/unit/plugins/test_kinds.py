"""Names of plugins."""

import pytest

from pinnace.plugins.errors import PluginNameError
from pinnace.plugins.kinds import check_name, qualified_name


@pytest.mark.spec("PLG-001")
@pytest.mark.parametrize(
    "name",
    [
        "example.io/azure",
        "with-dashes/name",
        "prefix/Uppercase_Is_OK_123",
        "1.2.3.4/5678",
        "a" * 253 + "/name",
    ],
)
def test_valid_names_are_accepted(name: str) -> None:
    check_name(name)


@pytest.mark.spec("PLG-002")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "exactly two parts"),
        ("single", "exactly two parts"),
        ("/", "both parts"),
        ("//", "exactly two parts"),
        ("///", "exactly two parts"),
        ("a/", "both parts"),
        ("/a", "both parts"),
        ("Uppercase_Is_OK_123/name", "valid DNS subdomain"),
        ("a" * 254 + "/name", "valid DNS subdomain"),
        ("ospecialchars%^=@", "exactly two parts"),
        ("-a/name", "valid DNS subdomain"),
        ("a..b/name", "valid DNS subdomain"),
        ("a\n/name", "valid DNS subdomain"),
    ],
)
def test_invalid_names_are_refused(name: str, problem: str) -> None:
    with pytest.raises(PluginNameError, match=problem) as caught:
        check_name(name)
    assert "Accepted format: <DNS subdomain>/<non-empty name>." in str(caught.value)


@pytest.mark.spec("PLG-003")
def test_a_provider_without_a_domain_is_of_velero() -> None:
    assert qualified_name("aws") == "velero.io/aws"
    assert qualified_name("oracle.io/oracle") == "oracle.io/oracle"

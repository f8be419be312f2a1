"""Names, namespaces and labels that Kubernetes would refuse."""

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.cli.errors import InvalidInput
from pinnace.cli.local import check_metadata


@pytest.mark.parametrize("name", ["a", "b1", "daily-20210801000000", "a.b-c.d", "1", "x" * 253])
def test_valid_names_are_accepted(name: str) -> None:
    check_metadata(ObjectMeta(name=name, namespace="velero", labels={"a.b/c": "D_e.f", "g": ""}))


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "a b", "ä", "a\n", "x" * 254]
)
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^metadata\.name: invalid value "):
        check_metadata(ObjectMeta(name=name, namespace="velero"))


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_metadata(ObjectMeta(name="A", namespace="B", labels={"c d": "e", "f": "g h"}))
    assert str(caught.value).count("invalid") == 4

"""Names, namespaces and labels that Kubernetes would refuse."""

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.cli.build import check_metadata
from pinnace.cli.errors import InvalidInput


@pytest.mark.parametrize("name", ["a", "b1", "daily-20210801000000", "a.b-c.d", "1", "x" * 253])
def test_valid_names_are_accepted(name: str) -> None:
    check_metadata(ObjectMeta(name=name, namespace="velero", labels={"a.b/c": "D_e.f", "g": ""}))


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "a b", "ä", "a\n", "x" * 254]
)
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^metadata\.name: invalid value "):
        check_metadata(ObjectMeta(name=name, namespace="velero"))


@pytest.mark.found("CF2")
@pytest.mark.parametrize("key", ["", "a b", "a/b/c", "-a", "ä/b", "x" * 64])
def test_keys_of_annotations_are_refused_as_the_api_server_refuses_them(key: str) -> None:
    check_metadata(ObjectMeta(name="a", namespace="velero", annotations={"Upper.io/Key": "any\ntext "}))

    with pytest.raises(InvalidInput, match=r"^metadata\.annotations: invalid annotation key "):
        check_metadata(ObjectMeta(name="a", namespace="velero", annotations={key: "b"}))


@pytest.mark.found("CF2")
def test_annotations_that_are_too_large_are_refused() -> None:
    check_metadata(ObjectMeta(name="a", namespace="velero", annotations={"k": "x" * (256 * 1024 - 1)}))

    with pytest.raises(InvalidInput, match="they have 262145 bytes, at most 262144 are allowed"):
        check_metadata(ObjectMeta(name="a", namespace="velero", annotations={"k": "ä" * (128 * 1024)}))


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_metadata(ObjectMeta(name="A", namespace="B", labels={"c d": "e", "f": "g h"}))
    assert str(caught.value).count("invalid") == 4

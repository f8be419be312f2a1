"""Paths of items in the tarball, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.archive.errors import ArchiveError
from pinnace.archive.paths import ItemLocation, item_path, parse_item_path, version_dir


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (
            ("pods", "v1-preferredversion", "ns", "p"),
            "resources/pods/v1-preferredversion/namespaces/ns/p.json",
        ),
        (("pods", None, "ns", "p"), "resources/pods/namespaces/ns/p.json"),
        (("namespaces", None, "", "ns"), "resources/namespaces/cluster/ns.json"),
        (
            ("clusterroles.rbac.authorization.k8s.io", None, "", "system:node"),
            "resources/clusterroles.rbac.authorization.k8s.io/cluster/system:node.json",
        ),
    ],
)
def test_path_of_an_item(arguments: tuple[str, str | None, str, str], path: str) -> None:
    assert item_path(*arguments) == path


def test_version_directory_marks_the_preferred_version() -> None:
    assert version_dir("v1", True) == "v1-preferredversion"
    assert version_dir("v2beta1", False) == "v2beta1"


@pytest.mark.spec("AFT-164")
@pytest.mark.parametrize("bad", ["..", ".", "a/b", "../x", "", "a\0b"])
def test_names_that_leave_their_directory_are_refused(bad: str) -> None:
    with pytest.raises(ArchiveError):
        item_path("pods", None, "ns", bad)
    if bad:
        with pytest.raises(ArchiveError):
            item_path("pods", None, bad, "name")


WORD = st.text(st.sampled_from("abz09-.:"), min_size=1, max_size=20).filter(
    lambda word: word not in (".", "..")
)
RESOURCE = WORD.filter(lambda word: word not in ("cluster", "namespaces"))


@given(RESOURCE, st.sampled_from(["", "v1", "v1beta1-preferredversion"]), st.just("") | WORD, WORD)
def test_round_trip(resource: str, version: str, namespace: str, name: str) -> None:
    path = item_path(resource, version, namespace, name)
    assert parse_item_path(path) == ItemLocation(resource, version, namespace, name)


@pytest.mark.parametrize(
    "path",
    [
        "metadata/version",
        "resources/pods",
        "resources/stray.json",
        "resources/pods/stray.json",
        "resources/pods/namespaces/stray.json",
        "resources/pods/namespaces/ns/p.txt",
        "resources/pods/namespaces/ns/.json",
        "resources/pods/namespaces/ns/deeper/p.json",
        "resources/pods/cluster/deeper/p.json",
        "elsewhere/pods/cluster/p.json",
    ],
)
def test_anything_else_is_not_an_item(path: str) -> None:
    assert parse_item_path(path) is None

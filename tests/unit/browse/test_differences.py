"""Which lists of a cluster a comparison with a backup needs. (The rest is tested through `backup diff`.)"""

from collections.abc import Sequence

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.selection.names import IncludesExcludes
from pinnace.browse.choosing import Choice
from pinnace.browse.differences import Selected

WHOLE_CLUSTER = [None]


@pytest.mark.parametrize(
    ("spec", "namespaces", "asked", "listed"),
    [
        ({}, ["blog", "shop"], [], WHOLE_CLUSTER),
        ({"includedNamespaces": ["*"]}, ["blog", "shop"], [], WHOLE_CLUSTER),
        ({"includedNamespaces": ["s*", "blog"]}, ["", "blog", "shop"], [], ["blog", "shop"]),
        ({"excludedNamespaces": ["kube-system"]}, ["shop"], [], ["shop"]),
        ({}, ["blog", "shop"], ["shop"], ["shop"]),
        ({"includedNamespaces": ["shop"]}, ["shop"], ["blog"], []),
        ({"includedNamespaces": ["n*"]}, [f"n{number}" for number in range(21)], [], WHOLE_CLUSTER),
    ],
    ids=["all", "all by name", "some", "all but one", "some are asked for", "none", "many"],
)
def test_only_namespaces_that_count_are_listed(
    spec: JSONObject, namespaces: list[str], asked: list[str], listed: Sequence[str | None]
) -> None:
    choice = Choice(namespaces=IncludesExcludes(asked))

    selected = Selected(spec, frozenset(namespaces), choice)

    assert selected.listed_namespaces(namespaced=True) == listed
    assert selected.listed_namespaces(namespaced=False) == WHOLE_CLUSTER

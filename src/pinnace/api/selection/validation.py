"""Checks of the include and exclude lists in a spec, with the texts that `describe` shows.

(docs/spec: API 2.4, 3.3; BKP 2.6)
"""

from collections.abc import Iterable

from pinnace.api.selection.names import validate


def resource_list_errors(includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """What is wrong with `includedResources` and `excludedResources`, as the user wrote them."""
    return [f"Invalid included/excluded resource lists: {error}" for error in validate(includes, excludes)]


def namespace_list_errors(includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """What is wrong with `includedNamespaces` and `excludedNamespaces`."""
    return [f"Invalid included/excluded namespace lists: {error}" for error in validate(includes, excludes)]

"""Checks of metadata, and of the include and exclude lists in a spec, with the texts that users see.

(docs/spec: API 2.4, 3.3; BKP 2.6)
"""

import re
from collections.abc import Iterable
from typing import Final

from pinnace.api.meta import ObjectMeta
from pinnace.api.selection.names import validate
from pinnace.api.selection.selectors import Operator, Requirement

MAX_NAME_CHARACTERS: Final = 253
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


def resource_list_errors(includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """What is wrong with `includedResources` and `excludedResources`, as the user wrote them."""
    return [f"Invalid included/excluded resource lists: {error}" for error in validate(includes, excludes)]


def namespace_list_errors(includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """What is wrong with `includedNamespaces` and `excludedNamespaces`."""
    return [f"Invalid included/excluded namespace lists: {error}" for error in validate(includes, excludes)]


def metadata_errors(metadata: ObjectMeta) -> list[str]:
    """What Kubernetes would refuse of a name, a namespace and labels, each as one text."""
    problems = []
    for field, value in (("name", metadata.name), ("namespace", metadata.namespace)):
        if len(value) > MAX_NAME_CHARACTERS or not _SUBDOMAIN.fullmatch(value):
            problems.append(
                f'metadata.{field}: invalid value "{value}": must be lower case letters, digits, "-" or ".", '
                f"with a letter or digit at both ends, {MAX_NAME_CHARACTERS} at most"
            )
    for key, value in metadata.labels.items():
        try:
            Requirement(key, Operator.EQUALS, (value,))
        except ValueError as error:
            problems.append(f"metadata.labels: {error}")
    return problems

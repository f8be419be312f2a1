"""Checks of metadata, and of the include and exclude lists in a spec, with the texts that users see.

(docs/spec: API 2.4, 3.3; BKP 2.6)
"""

import re
from collections.abc import Iterable
from typing import Final

from pinnace.api.meta import ObjectMeta
from pinnace.api.selection.names import EVERYTHING, is_glob, validate
from pinnace.api.selection.selectors import Operator, Requirement

MAX_NAME_CHARACTERS: Final = 253
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
MAX_LABEL_CHARACTERS: Final = 63
MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
"""Keys and values of all annotations of an object, as the API server allows them."""
_DNS_LABEL = re.compile(_LABEL, re.ASCII)
_CHARACTER_CLASS = re.compile(r"\[[^][]+\]")
_NOT_IN_NAMESPACES: Final = frozenset("|(){}!,\\")
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


def resource_list_errors(includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """The mistakes in `includedResources` and `excludedResources`, as the user wrote them."""
    return pair_errors("resource", includes, excludes)


def pair_errors(what: str, includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """The mistakes in a pair of lists that holds names of `what`."""
    return [f"Invalid included/excluded {what} lists: {error}" for error in validate(includes, excludes)]


def scoped_pair_errors(what: str, includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """The same for lists of one scope, where the excludes may be `*` if there are no includes. (BEY 4.4)"""
    included, excluded = tuple(includes), tuple(excludes)
    if EVERYTHING not in excluded:
        return pair_errors(what, included, excluded)
    errors = []
    if len(set(excluded)) > 1:
        errors.append("excludes list must either contain '*' only, or a list of items")
    if included:
        errors.append("excludes list cannot be '*' where the includes list has items")
    return [f"Invalid included/excluded {what} lists: {error}" for error in errors]


def namespace_list_errors(includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """The mistakes in `includedNamespaces` and `excludedNamespaces`. (docs/spec: BEY 4.6)"""
    included, excluded = tuple(includes), tuple(excludes)
    problems = {
        problem: None
        for name in sorted({*included, *excluded} - {"", EVERYTHING})
        if (problem := _namespace_problem(name))
    }
    patterns = {name for name in (*included, *excluded) if is_glob(name) and _namespace_problem(name)}
    valid = ([name for name in names if name not in patterns] for names in (included, excluded))
    return [f"Invalid included/excluded namespace lists: {error}" for error in (*validate(*valid), *problems)]


def namespace_problem(name: str) -> str:
    """Why a text cannot be the name of a namespace; empty if it can."""
    if not is_glob(name):
        return _namespace_problem(name)
    return f'invalid namespace "{name}": a pattern is not allowed here'


def _namespace_problem(name: str) -> str:
    """Why a name or pattern cannot be that of a namespace; empty if it can."""
    if forbidden := sorted(_NOT_IN_NAMESPACES.intersection(name)):
        return f'invalid namespace pattern "{name}": {" ".join(forbidden)} is not allowed'
    if "**" in name:
        return f'invalid namespace pattern "{name}": consecutive * are not allowed'
    rest = _CHARACTER_CLASS.sub("x", name)
    if "[" in rest or "]" in rest:
        return f'invalid namespace pattern "{name}": [ and ] must enclose at least one character'
    if not is_glob(name) and (len(name) > MAX_LABEL_CHARACTERS or not _DNS_LABEL.fullmatch(name)):
        return (
            f'invalid namespace "{name}": must be lower case letters, digits or "-", with a letter or digit'
            f" at both ends, {MAX_LABEL_CHARACTERS} at most"
        )
    return ""


def _instead_of(name: str) -> str:
    """A valid name that is like this one; empty if there is none."""
    like = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.")[:MAX_NAME_CHARACTERS].strip("-.")
    return f', as in "{like}"' if _SUBDOMAIN.fullmatch(like) and name.isascii() else ""


def metadata_errors(metadata: ObjectMeta) -> list[str]:
    """The problems of an object's metadata that make Kubernetes refuse it, one text for each."""
    problems = []
    for field, value in (("name", metadata.name), ("namespace", metadata.namespace)):
        if len(value) > MAX_NAME_CHARACTERS or not _SUBDOMAIN.fullmatch(value):
            problems.append(
                f'metadata.{field}: invalid value "{value}": must be lower case letters, digits, "-" or ".", '
                f"with a letter or digit at both ends, {MAX_NAME_CHARACTERS} at most{_instead_of(value)}"
            )
    for key, value in metadata.labels.items():
        try:
            Requirement(key, Operator.EQUALS, (value,))
        except ValueError as error:
            problems.append(f"metadata.labels: {error}")
    for key in metadata.annotations:
        try:
            Requirement(key.lower(), Operator.EXISTS)  # the prefix of an annotation may have capitals
        except ValueError as error:
            problems.append(f"metadata.annotations: {str(error).replace('label key', 'annotation key')}")
    size_bytes = sum(len(text.encode()) for pair in metadata.annotations.items() for text in pair)
    if size_bytes > MAX_ANNOTATIONS_BYTES:
        problems.append(
            f"metadata.annotations: they have {size_bytes} bytes, at most {MAX_ANNOTATIONS_BYTES} are allowed"
        )
    return problems

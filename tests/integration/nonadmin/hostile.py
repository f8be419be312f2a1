"""Objects that a tenant can write: all that the schemas of the definitions admit, and a little more."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinnace.kube.resources import APIResource
from pinnace.nonadmin import manifests
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)

Strategy = st.SearchStrategy[Any]

NAMES = tuple(f"hostile-{number}" for number in range(12))
"""Few names, so that objects name each other, and are made again under a used name."""

_WORDS = (
    "",
    "*",
    "..",
    "x/y",
    "%2e%2e",
    "1h",
    "-1h",
    "9" * 30 + "h",
    "1ns",
    "\U0001f4a3",
    "\x00",
    "null",
    "default",
    "{{.}}",
    "a" * 5000,
    "é" * 300,
    "aws",
    "gcp",
    "velero.io/azure",
    "keys",
    "cloud",
    "0",
    *NAMES,
)
_text = st.sampled_from(_WORDS) | st.text(max_size=4)
_numbers = st.sampled_from((0, 1, -1, 2**31, 2**63 - 1, -(2**63)))
_anything: Strategy = st.recursive(
    st.none() | st.booleans() | _numbers | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)


def values(schema: dict[str, Any]) -> Strategy:
    """Values that a schema admits; also `null` for every optional field, as clients write it."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return _numbers | _text
    simple: dict[str, Callable[[], Strategy]] = {
        "string": lambda: _text,
        "integer": lambda: _numbers,
        "number": lambda: _numbers,
        "boolean": st.booleans,
        "array": lambda: st.lists(values(schema["items"]), max_size=2),
    }
    kind = schema.get("type", "")
    if kind in simple:
        found = simple[kind]()
    elif "properties" in schema:
        required = set(schema.get("required", ()))
        fields = {name: values(inner) for name, inner in schema["properties"].items()}
        found = st.fixed_dictionaries(
            {name: field for name, field in fields.items() if name in required},
            optional={name: field for name, field in fields.items() if name not in required},
        )
    elif isinstance(schema.get("additionalProperties"), dict):
        found = st.dictionaries(_text, values(schema["additionalProperties"]), max_size=2)
    else:
        found = _anything
    return st.none() | found if schema.get("nullable") else found


def _specs() -> dict[APIResource, Strategy]:
    schemas = {}
    for crd in manifests.crds():
        (version,) = crd["spec"]["versions"]
        schemas[crd["spec"]["names"]["plural"]] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return {
        resource: values(schemas[resource.name])
        for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS)
    }


_ids = st.sampled_from(("x", "0", "a" * 63, *NAMES))
_metadata = st.fixed_dictionaries(
    {},
    optional={
        "finalizers": st.lists(
            st.sampled_from(
                (
                    "nonadminbackup.oadp.openshift.io/finalizer",
                    "nonadminrestore.oadp.openshift.io/finalizer",
                    "example.com/somebodys",
                )
            ),
            max_size=2,
            unique=True,
        ),
        "labels": st.dictionaries(
            st.sampled_from(
                (
                    "openshift.io/oadp-nab-synced-from-nacuuid",
                    "openshift.io/oadp-nab-origin-nacuuid",
                    "velero.io/backup-name",
                )
            ),
            _ids,
            max_size=2,
        ),
        "annotations": st.dictionaries(
            st.sampled_from(("openshift.io/oadp-nab-origin-namespace", "x")), _text, max_size=2
        ),
        "ownerReferences": st.lists(
            st.fixed_dictionaries(
                {
                    "apiVersion": st.sampled_from(("velero.io/v1", "v1")),
                    "kind": st.sampled_from(("Backup", "Namespace")),
                    "name": _ids,
                    "uid": st.just("0d6cf5e6-0000-4000-8000-000000000000"),
                    "blockOwnerDeletion": st.booleans(),
                }
            ),
            max_size=1,
        ),
    },
)


def _one_of(kinds: dict[APIResource, Strategy]) -> Strategy:
    return st.one_of(*(st.tuples(st.just(kind), specs) for kind, specs in kinds.items()))


def hostile_acts(count: int) -> list[tuple[str, str, APIResource, dict[str, Any], dict[str, Any]]]:
    """An act of a tenant: verb, name, kind, spec, metadata."""
    made: list[Any] = []
    verbs = st.sampled_from(("create", "create", "create", "edit", "delete", "strip", "purge"))

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), database=None)
    @given(verbs, st.sampled_from(NAMES), _one_of(_specs()), _metadata)
    def collect(verb: str, name: str, what: Any, metadata: Any) -> None:
        made.append((verb, name, what[0], what[1], metadata))

    collect()
    return made

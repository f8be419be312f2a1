"""Role bindings that exist and that a restore into a mapped namespace shares with the original one. Pure.

A ClusterRoleBinding has one name in the whole cluster. Its copy would name the accounts of the new namespace
in place of the original's, which would lose their rights. The mapped subjects are therefore added to the one
that exists, whatever the policy for existing objects, and none of a namespace that is mapped is taken away.
(docs/spec: RST 17; docs/adr/084)
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace.api.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, group_resources
from pinnace.api.objects import JSONObject, objects
from pinnace.plugins.builtin.subjects import namespace_of, same_subject
from pinnace.restore.selection.reading import ItemRef

_KINDS: Final = frozenset(group_resources(CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS))


def is_shared(ref: ItemRef, mapping: Mapping[str, str]) -> bool:
    """Whether a binding stays in its place while namespaces whose accounts it may name are mapped."""
    return bool(mapping) and ref.group_resource in _KINDS and ref.original_namespace == ref.target_namespace


def missing_subjects(
    in_cluster: JSONObject, desired: JSONObject, mapping: Mapping[str, str]
) -> list[JSONObject]:
    """The subjects of the new namespaces that an existing binding lacks; none if it grants another role."""
    if in_cluster.get("roleRef") != desired.get("roleRef"):
        return []
    present, new = objects(in_cluster, "subjects"), set(mapping.values())
    return [
        subject
        for subject in objects(desired, "subjects")
        if namespace_of(subject) in new and not _is_among(subject, present)
    ]


def beside_originals(in_cluster: JSONObject, desired: JSONObject, mapping: Mapping[str, str]) -> JSONObject:
    """The desired binding, with the existing subjects of all namespaces that are mapped.

    Subjects that exist keep their order.
    """
    wanted = objects(desired, "subjects")
    kept = [
        subject
        for subject in objects(in_cluster, "subjects")
        if _is_among(subject, wanted) or namespace_of(subject) in mapping
    ]
    if not kept:
        return desired
    added = [subject for subject in wanted if not _is_among(subject, kept)]
    return {**desired, "subjects": [*kept, *added]}


def with_subjects(in_cluster: JSONObject, more: Sequence[JSONObject]) -> JSONObject:
    """The binding with more subjects, without those that it has by now."""
    present = objects(in_cluster, "subjects")
    added = [subject for subject in more if not _is_among(subject, present)]
    return {**in_cluster, "subjects": [*present, *added]} if added else in_cluster


def originals(in_cluster: JSONObject, mapping: Mapping[str, str]) -> list[str]:
    """The mapped namespaces whose accounts an existing binding names, by their old names, sorted."""
    return sorted({namespace_of(subject) for subject in objects(in_cluster, "subjects")} & mapping.keys())


def _is_among(subject: JSONObject, others: list[JSONObject]) -> bool:
    return any(same_subject(subject, other) for other in others)

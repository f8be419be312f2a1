"""Says which rule takes one object into a backup, or leaves it out. Pure: with the rules of the engine."""

import msgspec

from pinnace.api.kinds import NAMESPACES
from pinnace.api.labels import EXCLUDE_FROM_BACKUP, EXCLUDE_FROM_BACKUP_VALUE
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.backup.plan import BackupFilter
from pinnace.kube.resources import APIResource


class RuleAnswer(msgspec.Struct, frozen=True):
    """One rule and its answer.

    Attributes:
        rule: the name of the rule, such as `namespace`.
        says: the answer in words.
        admits: whether the object passes.
    """

    rule: str
    says: str
    admits: bool = True


class ExplainedObject(msgspec.Struct, frozen=True):
    """The rules that an object met, up to the one that leaves it out.

    Attributes:
        is_saved: whether the backup takes the object by itself.
        if_needed: whether the backup takes it where another saved object needs it.
    """

    steps: tuple[RuleAnswer, ...]
    is_saved: bool
    if_needed: bool


def explain(scope: BackupFilter, resource: APIResource, item: JSONObject) -> ExplainedObject:
    """Follow an object through the rules of a backup. (docs/spec: BKP 6.1, docs/spec/after-1.18.md, 2.4)"""
    namespace, name = text(item, "metadata", "namespace"), text(item, "metadata", "name")
    steps: list[RuleAnswer] = []
    for step in (
        _marks(item),
        _namespace(scope, namespace or (name if _is_namespace(resource) else "")),
        _kind(scope, resource),
        _choice(scope, resource, item),
    ):
        steps.append(step)
        if not step.admits:
            break
    is_saved = steps[-1].admits
    needed = _marks(item).admits and scope.admits(resource.group_resource, namespace, name)
    return ExplainedObject(tuple(steps), is_saved, is_saved or needed)


def _is_namespace(resource: APIResource) -> bool:
    return resource.group_resource == NAMESPACES.group_resource


def _marks(item: JSONObject) -> RuleAnswer:
    if mapping(item, "metadata", "labels").get(EXCLUDE_FROM_BACKUP) == EXCLUDE_FROM_BACKUP_VALUE:
        return RuleAnswer(
            "object", f"its label {EXCLUDE_FROM_BACKUP} leaves it out of every backup", admits=False
        )
    if text(item, "metadata", "deletionTimestamp"):
        return RuleAnswer("object", "it is being deleted", admits=False)
    return RuleAnswer("object", "it has no mark that leaves it out")


def _namespace(scope: BackupFilter, namespace: str) -> RuleAnswer:
    if not namespace:
        return RuleAnswer("namespace", "it has none: it is cluster-scoped")
    if namespace in scope.left_out_namespaces:
        why = f"namespace {namespace} is being deleted, or its label {EXCLUDE_FROM_BACKUP} leaves it out"
        return RuleAnswer("namespace", why, admits=False)
    lists = scope.namespaces
    if not lists.matches(namespace):
        why = (
            f"namespace {namespace} is not among the included ones ({lists.include_list}), or is excluded"
            f" ({lists.exclude_list})"
        )
        return RuleAnswer("namespace", why, admits=False)
    return RuleAnswer("namespace", f"namespace {namespace} is included ({lists.include_list})")


def _kind(scope: BackupFilter, resource: APIResource) -> RuleAnswer:
    kind = resource.group_resource
    told = [line for line in scope.resources.lines() if not line.endswith((": *", ": <none>"))]
    lines = "; ".join(told) or "no list names kinds"
    is_collected = scope.resources.collects(
        kind, namespaced=resource.namespaced, all_namespaces=scope.namespaces.includes_everything
    )
    if is_collected:
        return RuleAnswer("kind", f"the filters of resources include {kind} ({lines})")
    if scope.resources.admits(kind, namespaced=resource.namespaced):
        return RuleAnswer(
            "kind", f"objects of {kind} are saved only where another one needs them ({lines})", admits=False
        )
    return RuleAnswer("kind", f"the filters of resources exclude {kind} ({lines})", admits=False)


def _choice(scope: BackupFilter, resource: APIResource, item: JSONObject) -> RuleAnswer:
    """The policy of the namespace or of the cluster-scoped kind, else the labels of the spec."""
    kind, namespace = resource.group_resource, text(item, "metadata", "namespace")
    name, labels = text(item, "metadata", "name"), mapping(item, "metadata", "labels")
    ruling = scope.policies.ruling(kind, namespace)
    takes = scope.takes(kind, namespace, name, labels)
    if ruling is None or _is_namespace(resource):
        if takes:
            return RuleAnswer("labels", f"its labels match ({str(scope.labels) or 'every object does'})")
        if _is_namespace(resource):
            return RuleAnswer(
                "labels", "its labels do not match, so it is saved only with what is in it", admits=False
            )
        return RuleAnswer("labels", f"its labels do not match {scope.labels}", admits=False)
    if ruling.filter is None:
        return RuleAnswer("policy", f"{ruling.place} does not list {kind}", admits=False)
    if not ruling.filter.names.matches(name):
        return RuleAnswer("policy", f"{ruling.place} leaves out the name {name}", admits=False)
    if not takes:
        return RuleAnswer(
            "policy", f"its labels do not match {ruling.filter.labels} of {ruling.place}", admits=False
        )
    return RuleAnswer("policy", f"{ruling.place} takes it")

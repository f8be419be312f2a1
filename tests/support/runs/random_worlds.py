"""Random objects, and random specs of backups and restores of them: pure, and the same for the same seed."""

from random import Random

from pinnace.api.objects import JSONObject

PREFIX = "obj-"
"""Of the names of all objects: what controllers add to a namespace is not compared."""

_KINDS = ("configmaps", "secrets", "serviceaccounts", "services", "roles", "rolebindings", "deployments")
_GROUPED = {
    "roles": "roles.rbac.authorization.k8s.io",
    "rolebindings": "rolebindings.rbac.authorization.k8s.io",
    "deployments": "deployments.apps",
}
RESOURCES = frozenset(_GROUPED.get(each, each) for each in _KINDS)
"""Of the objects; all else in a namespace is what controllers make of them, at their own time."""
_SELECTORS: tuple[JSONObject, ...] = (
    {"matchLabels": {"app": "web"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "cache"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
)


def objects_of(random: Random, namespace: str, count: int) -> list[JSONObject]:
    """Objects of a namespace, each with other labels and content."""
    return [_object(random, random.choice(_KINDS), namespace, number) for number in range(count)]


def _object(random: Random, kind: str, namespace: str, number: int) -> JSONObject:
    name = f"{PREFIX}{number}"
    labels = {key: random.choice(values) for key, values in
              (("app", ("web", "db", "cache")), ("tier", ("a", "b")), ("odd.example.com/x", ("", "1")))
              if random.random() < 0.6}  # fmt: skip
    notes = {"note": random.choice(("", "ä", "two\nlines", '{"a": 1}'))} if random.random() < 0.5 else {}
    metadata: JSONObject = {"name": name, "namespace": namespace, "labels": labels, "annotations": notes}
    obj: JSONObject = {"apiVersion": "v1", "metadata": metadata}
    value = random.choice(("", "x", "ünïcode", "1e3", "a\n"))
    pods = {"metadata": {"labels": {"run": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    match kind:
        case "configmaps":
            obj |= {"kind": "ConfigMap", "data": {"key": value}, "binaryData": {"raw": "AAEC"}}
            if random.random() < 0.3:
                obj["immutable"] = True
        case "secrets":
            obj |= {"kind": "Secret", "stringData": {"key": value}, "type": "example.com/any"}
        case "serviceaccounts":
            obj |= {"kind": "ServiceAccount", "automountServiceAccountToken": random.random() < 0.5}
        case "services":
            spec: JSONObject = {"selector": {"run": name}, "ports": [{"port": 80 + number}]}
            if random.random() < 0.3:
                spec["clusterIP"] = "None"
            obj |= {"kind": "Service", "spec": spec}
        case "roles":
            rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
            obj |= {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules}
        case "rolebindings":
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
            subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]
            obj |= {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
            obj |= {"roleRef": reference, "subjects": subjects}
        case _:
            spec = {"replicas": 0, "selector": {"matchLabels": {"run": name}}, "template": pods}
            obj |= {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    return obj


def backup_spec(random: Random, namespaces: list[str]) -> JSONObject:
    """A valid spec of a Backup of some of the namespaces."""
    chosen = random.sample(namespaces, random.randint(1, len(namespaces)))
    spec: JSONObject = {"includedNamespaces": sorted(chosen), "snapshotVolumes": False}
    resources = [_GROUPED.get(each, each) for each in random.sample(_KINDS, random.randint(1, 4))]
    match random.randrange(5):
        case 0:
            spec["includedResources"] = sorted(resources)
        case 1:
            spec["excludedResources"] = sorted(resources)
        case 2:
            spec["includedNamespaceScopedResources"] = sorted(resources)
        case 3:
            spec["excludedNamespaceScopedResources"] = sorted(resources)
    match random.randrange(4):
        case 0:
            spec["labelSelector"] = random.choice(_SELECTORS)
        case 1:
            spec["orLabelSelectors"] = random.sample(_SELECTORS, 2)
    return spec


def restore_spec(random: Random) -> JSONObject:
    """A valid spec of a Restore, without the backup and the namespaces."""
    spec: JSONObject = {"existingResourcePolicy": random.choice(("none", "update"))}
    resources = [_GROUPED.get(each, each) for each in random.sample(_KINDS, random.randint(2, 4))]
    if random.random() < 0.4:
        spec[random.choice(("includedResources", "excludedResources"))] = sorted(resources)
    if random.random() < 0.3:
        spec["labelSelector"] = random.choice(_SELECTORS)
    return spec


def changed(random: Random, obj: JSONObject, namespace: str) -> JSONObject:
    """An object of that name in another namespace, with other labels and sometimes another content."""
    metadata = {**obj["metadata"], "namespace": namespace}
    metadata["labels"] = {**metadata["labels"], "changed": "1"}
    other = {**obj, "metadata": metadata}
    if obj["kind"] == "ConfigMap" and random.random() < 0.7:
        other["data"] = {"key": "changed"}
    return other

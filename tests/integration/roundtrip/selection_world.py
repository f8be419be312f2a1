"""A small world in a real cluster, and an oracle, written from the rules, for the objects a backup must have.

The oracle shares no code with the engine: it decides item by item, where the engine plans lists and calls.
(docs/spec: BKP 4, 5, 6.1, 8.3, 12)
"""

import asyncio
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from tests.support.waiting import eventually

Identity = tuple[str, str, str]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
ACCOUNTS = "serviceaccounts"
ROLES = "clusterroles.rbac.authorization.k8s.io"
BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Item:
    """One object of the world."""

    resource: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def identity(self) -> Identity:
        """The name of the object in a tarball."""
        return self.resource, self.namespace, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a backup asks for. Selectors are named by what they want, see SELECTORS; several with ` or `."""

    included_namespaces: Sequence[str] = ()
    excluded_namespaces: Sequence[str] = ()
    included_resources: Sequence[str] = ()
    excluded_resources: Sequence[str] = ()
    include_cluster_resources: bool | None = None
    selector: str = ""
    included_cluster: Sequence[str] = ()
    excluded_cluster: Sequence[str] = ()
    included_namespaced: Sequence[str] = ()
    excluded_namespaced: Sequence[str] = ()

    @property
    def scoped(self) -> bool:
        """Whether each scope has filters of its own."""
        return bool(
            self.included_cluster
            or self.excluded_cluster
            or self.included_namespaced
            or self.excluded_namespaced
        )


SELECTORS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "": lambda labels: True,
    "app=web": lambda labels: labels.get("app") == "web",
    "app in (web,db)": lambda labels: labels.get("app") in ("web", "db"),
    "app notin (web)": lambda labels: labels.get("app") != "web",
    "tier": lambda labels: "tier" in labels,
    "!tier,app": lambda labels: "tier" not in labels and "app" in labels,
}

ALIASES = {
    "configmaps": ("cm", "configmap", "ConfigMaps"),
    "secrets": ("secret", "SECRETS"),
    "namespaces": ("ns", "namespace"),
    "serviceaccounts": ("sa",),
    "persistentvolumes": ("pv",),
    "deployments.apps": ("deploy", "deployments", "Deployment.apps"),
    ROLES: ("clusterroles", "clusterrole.rbac"),
    BINDINGS: ("clusterrolebindings",),
    CRDS: ("crd", "customresourcedefinitions"),
}
"""The names that a user may give for a resource."""


class World:
    """The objects. Every name starts with `prefix`, which must be unique in the cluster."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.group = f"{prefix}.example.com"
        self.gears = f"gears.{self.group}"
        first, second, third = self.namespaces = tuple(f"{prefix}-{end}" for end in ("a", "b", "bb"))
        web, db, tier = {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}
        hidden = {"app": "web", "velero.io/exclude-from-backup": "true"}
        shown = {"app": "web", "velero.io/exclude-from-backup": "false"}
        self.items = (
            Item("namespaces", "", first, web),
            Item("namespaces", "", second, db),
            Item("namespaces", "", third),
            Item("configmaps", first, "one", web),
            Item("configmaps", first, "two", db),
            Item("configmaps", first, "hidden", hidden),
            Item("configmaps", first, "shown", shown),
            Item("configmaps", second, "one"),
            Item("configmaps", third, "one", tier),
            Item("secrets", first, "one", tier),
            Item("secrets", second, "one", web),
            Item("secrets", second, "hidden", hidden),
            Item("deployments.apps", first, "web", web),
            Item("deployments.apps", third, "web", db),
            Item(ACCOUNTS, first, "runner", web),
            Item(self.gears, second, "wheel", db),
            Item(self.gears, third, "axle", tier),
            Item("persistentvolumes", "", f"{prefix}-web", web),
            Item("persistentvolumes", "", f"{prefix}-plain"),
            Item(ROLES, "", f"{prefix}-run", db),
            Item(BINDINGS, "", f"{prefix}-run"),
            Item(BINDINGS, "", f"{prefix}-other", web),
            Item(CRDS, "", self.gears),
        )

    @property
    def resources(self) -> list[str]:
        """All group-resources, each once."""
        return list(dict.fromkeys(item.resource for item in self.items))

    def canonical(self, name: str) -> str:
        """The resource that a name in a filter stands for; an unknown name stands for itself."""
        for resource, names in {**ALIASES, self.gears: ("gears", "gear")}.items():
            if name == resource or name in names:
                return resource
        return name

    def expected(self, choice: Choice) -> set[Identity]:
        """The objects of this world that a backup must hold."""
        collected = {item for item in self.items if self._collected(item, choice)}
        taken = collected | self._related(collected, choice)
        occupied = {item.namespace for item in taken}
        # Labels select what is in a namespace, and its object comes along.
        taken |= {
            item
            for item in self.items
            if item.resource == "namespaces" and item.name in occupied and self._admitted(item, choice)
        }
        return {item.identity for item in taken}

    def missing_namespaces(self, choice: Choice) -> int:
        """The number of included namespaces that do not exist: each is an error."""
        return sum(
            not any(sign in name for sign in "*?[{")
            and name not in self.namespaces
            and not _any(name, choice.excluded_namespaces)
            for name in set(choice.included_namespaces)
        )

    def _collected(self, item: Item, choice: Choice) -> bool:
        if not self._admitted(item, choice):
            return False
        if not any(SELECTORS[selector](item.labels) for selector in choice.selector.split(" or ")):
            return False
        if item.namespace:
            return True
        if item.resource == "namespaces":
            return _wanted(item.name, choice.included_namespaces, choice.excluded_namespaces)
        if choice.scoped:
            return self._cluster_scoped_wanted(item.resource, choice)
        return choice.include_cluster_resources is True or _all_namespaces(choice)

    def _cluster_scoped_wanted(self, resource: str, choice: Choice) -> bool:
        included = self._named(choice.included_cluster, namespaced=False)
        if included:
            return _any(resource, included)
        others = (
            *self._named(choice.excluded_cluster, namespaced=False),
            *self._named(choice.included_namespaced, namespaced=True),
            *self._named(choice.excluded_namespaced, namespaced=True),
        )
        return _all_namespaces(choice) and not others

    def _named(self, names: Sequence[str], *, namespaced: bool) -> list[str]:
        """What the names in a list mean; a name of the other scope means nothing."""
        scopes = {item.resource: bool(item.namespace) for item in self.items}
        meant = [name if name == "*" else self.canonical(name) for name in names]
        return [name for name in meant if scopes.get(name, namespaced) == namespaced]

    def _admitted(self, item: Item, choice: Choice) -> bool:
        """The skip rules, which also hold for what comes along with something else."""
        if item.labels.get("velero.io/exclude-from-backup") == "true":
            return False
        if choice.scoped:
            if not self._scoped_admitted(item, choice):
                return False
        elif not self._resource_wanted(item.resource, choice):
            return False
        if item.namespace:
            return _wanted(item.namespace, choice.included_namespaces, choice.excluded_namespaces)
        return item.resource == "namespaces" or choice.include_cluster_resources is not False

    def _scoped_admitted(self, item: Item, choice: Choice) -> bool:
        if not item.namespace:
            return not _any(item.resource, self._named(choice.excluded_cluster, namespaced=False))
        return _wanted(
            item.resource,
            self._named(choice.included_namespaced, namespaced=True),
            self._named(choice.excluded_namespaced, namespaced=True),
        )

    def _related(self, collected: set[Item], choice: Choice) -> set[Item]:
        """The binding and role of a service account, the definition of a custom resource."""
        related: set[str] = set()
        if any(item.resource == ACCOUNTS and item.name == "runner" for item in collected):
            related.add(f"{self.prefix}-run")
        if choice.include_cluster_resources is None and any(i.resource == self.gears for i in collected):
            related.add(self.gears)
        return {item for item in self.items if item.name in related and self._admitted(item, choice)}

    def _resource_wanted(self, resource: str, choice: Choice) -> bool:
        # An asterisk among the excluded resources would mean nothing; validation refuses it anyway.
        includes = [name if name == "*" else self.canonical(name) for name in choice.included_resources]
        return _wanted(resource, includes, [self.canonical(name) for name in choice.excluded_resources])

    # --- The objects themselves -------------------------------------------------------------------------

    async def install(self, client: KubeClient) -> None:
        """Create everything and wait until the custom resources are served."""
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, self._definition())
        for item in self.items:
            if item.resource == "namespaces":
                await client.create(NAMESPACES, self._manifest(item))
        discovery: list[Discovery] = []

        async def served() -> bool:
            discovery[:] = [await Discovery.load(client)]
            gears = discovery[0].preferred(self.gears)
            if gears is None:
                return False
            try:
                # For a moment the server answers 404 for what it has announced.
                await client.list_all(gears)
            except NotFound:
                return False
            return True

        await eventually(served)
        async with asyncio.TaskGroup() as group:
            for item in self.items:
                if item.resource in ("namespaces", CRDS):
                    continue
                resource = discovery[0].preferred(item.resource)
                assert resource is not None
                group.create_task(client.create(resource, self._manifest(item), item.namespace or None))

    async def remove(self, client: KubeClient) -> None:
        """Begin to delete everything."""
        discovery = await Discovery.load(client)
        for item in self.items:
            resource = discovery.preferred(item.resource)
            if not item.namespace and resource is not None:
                await client.delete(resource, item.name)

    def _manifest(self, item: Item) -> JSONObject:
        metadata = {"name": item.name, "labels": dict(item.labels)}
        return {"metadata": metadata, **self._content(item)}

    def _content(self, item: Item) -> JSONObject:
        match item.resource:
            case "deployments.apps":
                labels = {"run": item.name}
                container = {"name": "main", "image": "registry.invalid/none"}
                template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
                return {"spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}}
            case "persistentvolumes":
                return {
                    "spec": {
                        "capacity": {"storage": "1Gi"},
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "none",
                        "hostPath": {"path": "/nowhere"},
                    }
                }
            case _ if item.resource == self.gears:
                return {"apiVersion": f"{self.group}/v1", "kind": "Gear", "spec": {"size": 3}}
            case _ if item.resource == ROLES:
                return {"rules": []}
            case _ if item.resource == BINDINGS:
                account = "runner" if item.name.endswith("-run") else "somebody"
                return {
                    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{self.prefix}-run"},
                    "subjects": [
                        {"kind": "ServiceAccount", "name": account, "namespace": self.namespaces[0]}
                    ],
                }
        return {}

    def _definition(self) -> JSONObject:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
        }
        names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
        return {
            "metadata": {"name": self.gears},
            "spec": {"group": self.group, "scope": "Namespaced", "names": names, "versions": [version]},
        }


def _any(value: str, patterns: Iterable[str]) -> bool:
    return any(
        fnmatch.fnmatchcase(value, plain) for pattern in patterns for plain in _without_braces(pattern)
    )


def _without_braces(pattern: str) -> list[str]:
    """`a{b,c}` as `ab` and `ac`."""
    before, brace, rest = pattern.partition("{")
    inside, _, after = rest.partition("}")
    return [before + part + after for part in inside.split(",")] if brace else [pattern]


def _wanted(value: str, includes: Sequence[str], excludes: Sequence[str]) -> bool:
    return not _any(value, excludes) and (not includes or _any(value, includes))


def _all_namespaces(choice: Choice) -> bool:
    """Whether cluster-scoped resources come along by themselves."""
    everything = choice.included_namespaces in ((), []) or list(choice.included_namespaces) == ["*"]
    return choice.include_cluster_resources is None and everything and not choice.excluded_namespaces

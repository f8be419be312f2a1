"""`velero.io/service-account`: an account brings its cluster role bindings and their roles.

(docs/spec: BKP 8.3)
"""

from collections.abc import Sequence

from pinnace.api.backup import Backup
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from pinnace.plugins.protocols import JSONObject, ResourceIdentifier, ResourceSelector

GROUP = "rbac.authorization.k8s.io"
BINDINGS = f"clusterrolebindings.{GROUP}"
KNOWN_VERSIONS = ("v1", "v1beta1")


class ServiceAccountAction:
    """Names the ClusterRoleBindings that have an account as subject, and the ClusterRoles they refer to.

    The bindings are read once a backup, when the action is asked what it applies to: a cluster whose bindings
    cannot be read would otherwise give backups whose accounts have no rights after a restore.
    """

    name = "velero.io/service-account"

    def __init__(self, client: KubeClient, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery
        self._bindings: dict[tuple[str, str], set[str]] = {}
        self._roles: dict[tuple[str, str], set[str]] = {}

    async def applies_to(self) -> ResourceSelector:
        self._bindings.clear()
        self._roles.clear()
        resource = self._resource()
        if resource is not None:
            for binding in await self._client.list_all(resource):
                self._learn(binding)
        return ResourceSelector(included_resources=("serviceaccounts",))

    def ignores(self, namespace: str, name: str, raw: bytes) -> bool:
        """No binding names it; a role comes only with its binding."""
        return (namespace, name) not in self._bindings

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        account = (item["metadata"]["namespace"], item["metadata"]["name"])
        bindings = _identifiers("clusterrolebindings", self._bindings.get(account, set()))
        roles = _identifiers("clusterroles", self._roles.get(account, set()))
        return item, bindings + roles

    def _resource(self) -> APIResource | None:
        """The bindings in the group's preferred version, or in one we know how to read."""
        preferred = self._discovery.preferred(BINDINGS)
        if preferred is None or preferred.version in KNOWN_VERSIONS:
            return preferred
        served = (self._discovery.served(BINDINGS, version) for version in KNOWN_VERSIONS)
        return next((resource for resource in served if resource is not None), None)

    def _learn(self, binding: JSONObject) -> None:
        role = (binding.get("roleRef") or {}).get("name")
        for subject in binding.get("subjects") or ():
            if subject.get("kind") != "ServiceAccount":
                continue
            account = (subject.get("namespace", ""), subject.get("name", ""))
            self._bindings.setdefault(account, set()).add(binding["metadata"]["name"])
            if role:
                self._roles.setdefault(account, set()).add(role)


def _identifiers(resource: str, names: set[str]) -> list[ResourceIdentifier]:
    return [
        ResourceIdentifier(group=GROUP, resource=resource, namespace="", name=name) for name in sorted(names)
    ]

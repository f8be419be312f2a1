"""`velero.io/service-account`: an account brings its cluster role bindings and their roles.

(docs/spec: BKP 8.3)
"""

import asyncio
from collections.abc import Sequence

from pinnace.api.kinds import SERVICE_ACCOUNTS
from pinnace.api.objects import JSONObject
from pinnace.api.selection.resource_filters import filter_of
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden, KubeError
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.logs import get_logger
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector

log = get_logger(__name__)

GROUP = "rbac.authorization.k8s.io"
BINDINGS = f"clusterrolebindings.{GROUP}"
ROLES = f"clusterroles.{GROUP}"
KNOWN_VERSIONS = ("v1", "v1beta1")


class ServiceAccountAction:
    """Names the ClusterRoleBindings that have an account as subject, and the ClusterRoles they refer to.

    The bindings are read once a backup, when it meets the first account: a backup without accounts needs no
    right to read them. Where they cannot be read, each account is saved all the same, with an error:
    restored in another cluster, it may lack rights that it has here. There is no error if the filters of the
    backup leave out bindings and roles anyway.
    """

    name = "velero.io/service-account"

    def __init__(self, client: KubeClient, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery
        self._bindings: dict[tuple[str, str], set[str]] = {}
        self._roles: dict[tuple[str, str], set[str]] = {}
        self._reading = asyncio.Lock()
        self._is_read = False
        self._failure: KubeError | None = None

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=(SERVICE_ACCOUNTS.group_resource,))

    async def prepare(self) -> None:
        """Read the bindings. What is forbidden is not asked for again; other failures are."""
        async with self._reading:
            if self._is_read:
                return
            try:
                resource = self._resource()
                found = await self._client.list_all(resource) if resource is not None else []
            except KubeError as error:
                self._failure, self._is_read = error, isinstance(error, Forbidden)
                return
            for binding in found:
                self._learn(binding)
            self._failure, self._is_read = None, True

    def ignores(self, namespace: str, name: str, raw: bytes) -> bool:
        """Whether no binding names the account; a role comes only with its binding."""
        return self._is_read and self._failure is None and (namespace, name) not in self._bindings

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        account = (item["metadata"]["namespace"], item["metadata"]["name"])
        await self.prepare()
        if self._failure is not None and self._may_bring_any(backup.spec):
            log.error(
                Notice(
                    Code.LIST_FAILED,
                    "The cluster role bindings of service account %s/%s are not in the backup",
                ),
                *account,
                extra={"error": str(self._failure)},
            )
            return item, []
        bindings = _identifiers("clusterrolebindings", self._bindings.get(account, set()))
        roles = _identifiers("clusterroles", self._roles.get(account, set()))
        return item, bindings + roles

    def _may_bring_any(self, spec: BackupSpec) -> bool:
        """Whether a binding or a role that comes with an account passes the filters of the backup."""
        chosen = filter_of(
            spec, canonical=self._discovery.canonical, is_namespaced=self._discovery.is_namespaced
        ).filter
        return any(chosen.admits(kind, namespaced=False) for kind in (BINDINGS, ROLES))

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

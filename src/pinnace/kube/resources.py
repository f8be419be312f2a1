"""Resources of an API server and the paths of their objects. The table of kinds is `api.kinds`."""

from typing import Final
from urllib.parse import quote

import msgspec

from pinnace.api import kinds
from pinnace.api.kinds import Kind
from pinnace.kube.errors import InvalidName

KUBERNETES_GROUPS: Final = frozenset(
    f"{name}.k8s.io"
    for name in (
        *("admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization"),
        *("certificates", "coordination", "discovery", "events", "flowcontrol.apiserver"),
        *("internal.apiserver", "networking", "node", "rbac.authorization", "resource", "scheduling"),
        *("storage", "storagemigration"),
    )
)
"""The groups with a dot that the API server itself serves."""

_ALL_VERBS = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})


class APIResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version, as discovery describes it.

    `name` is the plural; `group` is empty for the core group.
    """

    group: str
    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: frozenset[str] = _ALL_VERBS
    short_names: tuple[str, ...] = ()
    singular_name: str = ""

    @property
    def api_version(self) -> str:
        """`v1`, or `apps/v1` for a named group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_of_kubernetes(self) -> bool:
        """Whether the API server itself serves it, and not a definition or a server of its own."""
        return "." not in self.group or self.group in KUBERNETES_GROUPS

    @property
    def group_resource(self) -> str:
        """`pods`, or `deployments.apps` for a named group."""
        return f"{self.name}.{self.group}" if self.group else self.name

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The request path of the collection, of one object, or of an object's sub-resource.

        Without a namespace (None or ""), a namespaced resource's path spans all namespaces. The
        namespace of a cluster-scoped resource is ignored.

        Raises:
            InvalidName: if a segment is one that a server would resolve to another path.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            path += f"/namespaces/{_segment(namespace)}"
        path += f"/{self.name}"
        if name is not None:
            path += f"/{_segment(name)}"
        if subresource:
            path += "/" + "/".join(_segment(part) for part in subresource.split("/"))
        return path


def _segment(text: str) -> str:
    # Names come from archives too. API servers decode a quoted slash before they parse the path, so
    # with quoting alone a name could address another object, or a whole collection.
    if text in ("", ".", "..") or "/" in text or "%" in text:
        raise InvalidName(f"{text!r} cannot be the name of an object")
    return quote(text, safe="")


def known(kind: Kind) -> APIResource:
    """The resource of a kind of the table, with all verbs."""
    return APIResource(
        group=kind.group,
        version=kind.version,
        name=kind.plural,
        kind=kind.kind,
        namespaced=kind.namespaced,
        short_names=kind.short_names,
        singular_name=kind.singular,
    )


NAMESPACES = known(kinds.NAMESPACES)
NODES = known(kinds.NODES)
PERSISTENT_VOLUMES = known(kinds.PERSISTENT_VOLUMES)
PERSISTENT_VOLUME_CLAIMS = known(kinds.PERSISTENT_VOLUME_CLAIMS)
PODS = known(kinds.PODS)
CONFIGMAPS = known(kinds.CONFIGMAPS)
SECRETS = known(kinds.SECRETS)
SERVICES = known(kinds.SERVICES)
SERVICE_ACCOUNTS = known(kinds.SERVICE_ACCOUNTS)
EVENTS = known(kinds.EVENTS)
DEPLOYMENTS = known(kinds.DEPLOYMENTS)
DAEMON_SETS = known(kinds.DAEMON_SETS)
REPLICA_SETS = known(kinds.REPLICA_SETS)
STATEFUL_SETS = known(kinds.STATEFUL_SETS)
REPLICATION_CONTROLLERS = known(kinds.REPLICATION_CONTROLLERS)
NETWORK_POLICIES = known(kinds.NETWORK_POLICIES)
JOBS = known(kinds.JOBS)
LEASES = known(kinds.LEASES)
STORAGE_CLASSES = known(kinds.STORAGE_CLASSES)
VOLUME_ATTACHMENTS = known(kinds.VOLUME_ATTACHMENTS)
CLUSTER_ROLES = known(kinds.CLUSTER_ROLES)
CLUSTER_ROLE_BINDINGS = known(kinds.CLUSTER_ROLE_BINDINGS)
SERVICE_CIDRS = known(kinds.SERVICE_CIDRS)
ENDPOINT_SLICES = known(kinds.ENDPOINT_SLICES)
VOLUME_SNAPSHOT_CONTENTS = known(kinds.VOLUME_SNAPSHOT_CONTENTS)
CUSTOM_RESOURCE_DEFINITIONS = known(kinds.CUSTOM_RESOURCE_DEFINITIONS)

BACKUPS = known(kinds.BACKUPS)
RESTORES = known(kinds.RESTORES)
SCHEDULES = known(kinds.SCHEDULES)
BACKUP_STORAGE_LOCATIONS = known(kinds.BACKUP_STORAGE_LOCATIONS)
VOLUME_SNAPSHOT_LOCATIONS = known(kinds.VOLUME_SNAPSHOT_LOCATIONS)
POD_VOLUME_BACKUPS = known(kinds.POD_VOLUME_BACKUPS)
POD_VOLUME_RESTORES = known(kinds.POD_VOLUME_RESTORES)
BACKUP_REPOSITORIES = known(kinds.BACKUP_REPOSITORIES)
RESTIC_REPOSITORIES = known(kinds.RESTIC_REPOSITORIES)
DELETE_BACKUP_REQUESTS = known(kinds.DELETE_BACKUP_REQUESTS)
DOWNLOAD_REQUESTS = known(kinds.DOWNLOAD_REQUESTS)
SERVER_STATUS_REQUESTS = known(kinds.SERVER_STATUS_REQUESTS)
DATA_UPLOADS = known(kinds.DATA_UPLOADS)
DATA_DOWNLOADS = known(kinds.DATA_DOWNLOADS)

_VELERO = {kind.plural: known(kind) for kind in kinds.VELERO}


def velero(plural: str) -> APIResource:
    """The resource of one of the kinds of `velero.io` by its plural. (docs/spec: API 1, BEY 6.7)

    Raises:
        KeyError: if there is no such kind.
    """
    return _VELERO[plural]

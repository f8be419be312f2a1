"""A snapshot of the resources that a cluster serves: which ones a backup saves, and how names resolve.

A snapshot never changes. A refresh loads another one and replaces the old one only when that has succeeded,
so that a refresh that fails half way leaves the old state in place.
(docs/spec: SRV 10, BKP 4.2, 5.1, API 13.3)
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pinnace.kube.discovering import fetch_groups
from pinnace.kube.errors import UnknownResource
from pinnace.kube.groups import APIGroup, GroupVersion
from pinnace.kube.resources import APIResource

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient
    from pinnace.kube.requesting import ServerVersion

NEEDED_VERBS = frozenset({"list", "create", "get", "delete"})
"""The verbs that a resource needs to be backed up and restored. (docs/spec: BKP 5.1)"""
_LAST_GROUP = "extensions"
# Pods before their volumes: then it is known which volumes restic saves before snapshots are taken.
_CORE_ORDER = {
    PODS.group_resource: 0,
    PERSISTENT_VOLUME_CLAIMS.group_resource: 1,
    PERSISTENT_VOLUMES.group_resource: 2,
}


class Discovery:
    """An immutable snapshot of what the API server serves.

    Attributes:
        server_version: None only where none was given.
        groups: core first, then the server's order, `extensions` last.
        resources: those that a backup saves, in its order: one version each, or with `all_versions` all.
        all_resources: every resource in every version, whatever its verbs; no sub-resources.
        warnings: one text for each version whose discovery failed.
    """

    def __init__(
        self,
        groups: Iterable[APIGroup],
        *,
        server_version: "ServerVersion | None" = None,
        all_versions: bool = False,
    ) -> None:
        self.server_version = server_version
        self.groups = tuple(sorted(groups, key=_group_rank))
        self._groups = {group.name: group for group in self.groups}
        pairs = [(group, version) for group in self.groups for version in group.versions]
        self.all_resources = tuple(
            resource for group, version in pairs for resource in _ordered(group, version)
        )
        self._served = {
            (resource.group_resource, resource.version): resource for resource in self.all_resources
        }
        self._kinds = _first_of(
            ((resource.api_version, resource.kind), resource) for resource in self.all_resources
        )
        by_preference = [
            resource
            for group in self.groups
            for version in group.by_preference()
            for resource in version.resources
        ]
        self._with_status = frozenset(
            (f"{name}.{group.name}" if group.name else name, version.version)
            for group, version in pairs
            for name in version.with_status
        )
        self._preferred = _first_of((resource.group_resource, resource) for resource in by_preference)
        self._preferred_kinds = _first_of(
            ((resource.group, resource.kind), resource) for resource in by_preference
        )
        self._names = _by_name(by_preference)
        self.resources = tuple(
            resource
            for resource in self.all_resources
            if resource.verbs >= NEEDED_VERBS
            and (all_versions or self._preferred[resource.group_resource] is resource)
        )
        self._short_names = _by_short_name(self.resources)
        self._taken = frozenset((one.group_resource, one.version) for one in self.resources)
        self.warnings = tuple(
            f"Failed to discover group: {f'{group.name}/{version.version}'.lstrip('/')}: {version.failure}"
            for group, version in pairs
            if version.failure
        )

    @classmethod
    async def load(
        cls,
        client: "KubeClient",
        *,
        all_versions: bool = False,
        server_version: "ServerVersion | None" = None,
    ) -> Self:
        """Load a snapshot from the server.

        Args:
            client: the server's client.
            all_versions: include every version of each resource (feature EnableAPIGroupVersions).
            server_version: the server's version, if it is known.

        Raises:
            KubeError: the server does not answer, or its core group cannot be discovered.
        """
        version = server_version or await client.version()
        groups = await fetch_groups(client)
        return cls(groups, server_version=version, all_versions=all_versions)

    @property
    def gaps(self) -> str:
        """All failures in one line, for people: those of one reason together; empty if there is none."""
        names: dict[str, list[str]] = {}
        for group in self.groups:
            for version in group.versions:
                if version.failure:
                    names.setdefault(version.failure, []).append(
                        f"{group.name}/{version.version}".lstrip("/")
                    )
        number = sum(map(len, names.values()))
        if not number:
            return ""
        reasons = "; ".join(f"{', '.join(failed)}: {reason}" for reason, failed in names.items())
        return f"Failed to discover {f'{number} groups' if number > 1 else 'group'}: {reasons}"

    def resolve(self, name: str) -> APIResource:
        """The resource that a user names by plural, singular or short name, with or without `.group`.

        Short names take precedence and are compared as written, like groups; plural and singular are
        compared in lower case. A group may be abbreviated to its beginning, if no group has exactly that
        name. Of several resources of one name, the first in the order of groups is returned.
        (docs/spec: API 13.3, BKP 4.2)

        Raises:
            UnknownResource: there is none, or a backup cannot save it.
        """
        wanted, _, group = name.partition(".")
        plural, group = self._expand_short_name(wanted, group)
        resource = self._find(plural.lower(), group)
        if resource is None:
            raise UnknownResource(f"the server has no resource {name!r}")
        if (resource.group_resource, resource.version) not in self._taken:
            group_version = f"{resource.group}/{resource.version}"
            raise UnknownResource(
                f"APIResource not found for GroupVersionResource {group_version}, Resource={resource.name}"
            )
        return resource

    def canonical(self, name: str) -> str:
        """Return `pods` for `po`, `deployments.apps` for `deploy`, and unknown names unchanged."""
        try:
            return self.resolve(name).group_resource
        except UnknownResource:
            return name

    def is_namespaced(self, name: str) -> bool | None:
        """Whether the objects of a resource are in namespaces; None for unknown names."""
        try:
            return self.resolve(name).namespaced
        except UnknownResource:
            return None

    def for_kind(self, api_version: str, kind: str) -> APIResource | None:
        """The resource of a kind: in this version, else in the preferred version of its group."""
        group = api_version.rpartition("/")[0]
        return self._kinds.get((api_version, kind)) or self._preferred_kinds.get((group, kind))

    def served(self, group_resource: str, version: str) -> APIResource | None:
        """A resource in this version, if the server serves it."""
        return self._served.get((group_resource, version))

    def has_status(self, resource: APIResource) -> bool | None:
        """Whether a resource has a status sub-resource; None if it is not served in this version."""
        key = (resource.group_resource, resource.version)
        return key in self._with_status if key in self._served else None

    def preferred(self, group_resource: str) -> APIResource | None:
        """A resource in its group's preferred version, else in the first version that has it."""
        return self._preferred.get(group_resource)

    def serves_group(self, group: str) -> bool:
        """Whether the server has a group, even if the group does not work at present."""
        return group in self._groups

    def group_versions(self, group: str) -> tuple[str, ...]:
        """The versions of a group in the server's order; empty if it has no such group."""
        found = self._groups.get(group)
        return tuple(version.version for version in found.versions) if found is not None else ()

    def _expand_short_name(self, wanted: str, group: str) -> tuple[str, str]:
        matches = self._short_names.get(wanted, ())
        for resource in matches:
            if group in ("", resource.group):
                return resource.name, resource.group or group
        for resource in matches:
            if resource.group.startswith(group):
                return resource.name, group
        return wanted, group

    def _find(self, name: str, group: str) -> APIResource | None:
        found = self._names.get(name, ())
        if not group:
            return found[0] if found else None
        exact = (resource for resource in found if resource.group == group)
        prefixed = (resource for resource in found if resource.group.startswith(group))
        return next(exact, None) or next(prefixed, None)


def _group_rank(group: APIGroup) -> int:
    # The sort is stable: between first and last the server's order holds.
    if group.name == "":
        return 0
    return 2 if group.name == _LAST_GROUP else 1


def _ordered(group: APIGroup, version: GroupVersion) -> list[APIResource]:
    if group.name:
        return list(version.resources)
    return sorted(version.resources, key=lambda resource: _CORE_ORDER.get(resource.name, len(_CORE_ORDER)))


def _first_of(pairs: Iterator[tuple[Any, APIResource]]) -> dict[Any, APIResource]:
    found: dict[Any, APIResource] = {}
    for key, resource in pairs:
        found.setdefault(key, resource)
    return found


def _by_short_name(resources: Iterable[APIResource]) -> dict[str, list[APIResource]]:
    names: dict[str, list[APIResource]] = {}
    for resource in resources:
        for name in dict.fromkeys(resource.short_names):
            names.setdefault(name, []).append(resource)
    return names


def _by_name(resources: Iterable[APIResource]) -> dict[str, tuple[APIResource, ...]]:
    """Resources by plural and by singular; where discovery gives no singular, by the kind."""
    names: dict[str, list[APIResource]] = {}
    for resource in resources:
        singular = resource.singular_name or resource.kind.lower()
        for name in dict.fromkeys((resource.name, singular)):
            names.setdefault(name, []).append(resource)
    return {name: tuple(found) for name, found in names.items()}

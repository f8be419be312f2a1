"""Limits the kinds that a restore for a tenant, or from a tenant's data, may create. Pure.

A restore runs with the rights of the server. Without a limit, a tenant's restore would create objects that
the tenant may not write: a role binding that the administrator revoked, a quota, the volume of another
namespace. The limit is the role `edit` of the cluster, with all roles that are aggregated into it.
(docs/spec: NAC 17 A36)
"""

from collections.abc import Iterable
from typing import Any, Final, Self

import msgspec

from pinnace.api.kinds import PERSISTENT_VOLUMES
from pinnace.api.objects import JSONObject, listed, objects

ROLE: Final = "edit"

_GRANTING: Final = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
"""Refused in every group, whatever the role says: the API server keeps users from granting more rights than
they have, but does not keep this server from it."""

VOLUMES: Final = PERSISTENT_VOLUMES.group_resource

SETTING: Final = "restorableResources"


class TenantLimits(msgspec.Struct, frozen=True):
    """The kinds that a tenant may create in its namespace, and those that the administrator adds.

    Attributes:
        creatable: pairs of API group and plural; `*` stands for all of them.
        allowed: `plural.group` of kinds that the administrator's settings allow beyond that.
    """

    creatable: frozenset[tuple[str, str]]
    allowed: frozenset[str] = frozenset()

    @classmethod
    def of_role(cls, role: JSONObject, allowed: Iterable[str] = ()) -> Self:
        """The rights of a ClusterRole that is bound in a namespace; rules for single names grant nothing."""
        return cls(
            creatable=frozenset(
                (group, resource)
                for rule in objects(role, "rules")
                if not rule.get("resourceNames") and {"create", "*"} & _texts(rule, "verbs")
                for group in _texts(rule, "apiGroups")
                for resource in _texts(rule, "resources")
            ),
            allowed=frozenset(allowed),
        )

    def refusal(self, group_resource: str, *, is_namespaced: bool) -> str | None:
        """Why objects of a kind are left out, or None if they may be created."""
        if group_resource in self.allowed:
            return None
        plural, _, group = group_resource.partition(".")
        if not is_namespaced:
            reason = "a tenant may create nothing outside its own namespace"
        elif plural in _GRANTING:
            reason = "it grants rights"
        elif self._grants(group, plural):
            return None
        else:
            reason = f"the role {ROLE} may not create it"
        return f"a tenant's restore leaves it out, for {reason}; the administrator's {SETTING} may allow it"

    def _grants(self, group: str, plural: str) -> bool:
        return any((one, other) in self.creatable for one in (group, "*") for other in (plural, "*"))


def is_old_storage(volume: JSONObject, backed_up: JSONObject) -> bool:
    """Whether a PersistentVolume that is about to be created points at the storage that the backup saw.

    That storage may belong to another tenant by now. A volume made from a snapshot points at new storage.
    """
    return _source(volume) == _source(backed_up)


def _source(volume: JSONObject) -> dict[str, Any]:
    spec = volume.get("spec")
    return {key: value for key, value in spec.items() if key != "claimRef"} if isinstance(spec, dict) else {}


def _texts(rule: JSONObject, field: str) -> set[str]:
    return {entry for entry in listed(rule, field) if isinstance(entry, str)}

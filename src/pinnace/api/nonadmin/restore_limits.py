"""The eight limits of a tenant's restore: whoever enforces one reads it here. Pure.

A restore runs with the rights of the server. Without limits, a tenant's restore would create objects that the
tenant may not write: a role binding that the administrator revoked, a quota, the volume of another namespace.
They hold for a Restore that self-service made, and for any Restore from a tenant's location.
(docs/spec: NAC 17; docs/reference/self-service.md has them as a table)
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, Self

import msgspec

from pinnace.api.kinds import PERSISTENT_VOLUMES
from pinnace.api.nonadmin.exclusions import GUARDED_KINDS, SNAPSHOT_KINDS, UNTRUSTED_EXCLUDED
from pinnace.api.objects import JSONObject, listed, objects
from pinnace.api.values.durations import Duration
from pinnace.api.velero.restore import ExistingResourcePolicy

# --- The request ------------------------------------------------------------------------------------------

CONFIG_MAP_FIELDS: Final = ("resourceModifier", "resourcePolicy")
"""Fields of a spec that name a ConfigMap of the server's namespace."""
RESTRICTED_FIELDS: Final = (
    "includedNamespaces",
    "excludedNamespaces",
    "namespaceMapping",
    *CONFIG_MAP_FIELDS,
    "skipDefaultResourceModifier",
    "restoreStatus",
)
"""Fields of a spec that only self-service sets. The role `edit` may not write a status."""
RESTRICTED_POLICY: Final = ExistingResourcePolicy.RECREATE

MAX_SPEC_BYTES: Final = 1 << 18
"""256 KiB: far more than an honest spec needs, and several times less than an API server stores."""
MAX_VALUES: Final = 2_000
"""Values in all lists and maps together."""
MAX_SELECTORS: Final = 100
"""Alternatives in orLabelSelectors."""
MAX_HOOKS: Final = 100
"""Entries in the hooks of a spec."""
MAX_ORDERED: Final = 2_000
"""Objects in orderedResources: each is a request of its own."""
MAX_OBJECTS: Final = 2_000
"""Single objects that a restore is limited to."""
MAX_PATTERNS: Final = 4_096
"""Characters of all patterns together."""
MAX_PARALLEL_FILES: Final = 64
"""The most parallel files of a tenant: each takes memory of the node agent, which all tenants share."""

# --- The share of the server ------------------------------------------------------------------------------

DEFAULT_UNFINISHED: Final = 0
"""Unfinished Restores of a namespace at a time; 0 for any number."""
DEFAULT_HOOK_TIME: Final = Duration.minutes(30)

# --- Kinds and volumes ------------------------------------------------------------------------------------

ROLE: Final = "edit"

_GRANTING: Final = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
"""Refused in every group, whatever the role says: the API server keeps users from granting more rights than
they have, but does not keep this server from it."""

VOLUMES: Final = PERSISTENT_VOLUMES.group_resource

SETTING: Final = "restorableResources"


# --- The limits -------------------------------------------------------------------------------------------


class Limit(Enum):
    """One limit; its value is what the page for administrators says."""

    REQUEST = (
        "its spec names no namespaces, modifiers, policies, statuses or cluster-scoped resources, recreates"
        f" no object, and has at most {MAX_SPEC_BYTES >> 10} KiB, {MAX_VALUES} values, {MAX_SELECTORS} label"
        f" selectors, {MAX_HOOKS} hooks and {MAX_PARALLEL_FILES} parallel files"
    )
    SHARE = "`maxUnfinishedRestores` of a namespace at a time; `maxHookTime` for all hooks of one together"
    NAMESPACE = f"nothing outside its own namespace but volumes and what `{SETTING}` allows; it makes none"
    KINDS = (
        f"what the ClusterRole `{ROLE}` may create, without roles and bindings; from your own location also"
        f" what `{SETTING}` allows"
    )
    STATUSES = "no object gets its status back"
    VOLUMES = (
        "new volumes only: made from snapshots that the server noted, or filled from saved files; the old"
        f" storage stays away, unless `{SETTING}` allows `{VOLUMES}`"
    )
    LOCATION = "from a bucket of a tenant: no volume snapshots, moved data, quotas or endpoints"
    ANSWERS = "no other namespace is named in its log and results, nor what else the backup has"


ENFORCED_BY: Final[Mapping[Limit, Mapping[str, str]]] = {
    Limit.REQUEST: {
        "pinnace.nonadmin.specs.restore": "RESTRICTED_FIELDS",
        "pinnace.nonadmin.specs.sizes": "MAX_VALUES",
    },
    Limit.SHARE: {
        "pinnace.nonadmin.settings.admin": "DEFAULT_UNFINISHED",
        "pinnace.hooks.limit": "DEFAULT_HOOK_TIME",
    },
    Limit.NAMESPACE: {
        "pinnace.restore.item.context": "Limit.NAMESPACE",
        "pinnace.restore.passes": "Limit.NAMESPACE",
    },
    Limit.KINDS: {
        "pinnace.restore.item.admission": "TenantLimits",
        "pinnace.nonadmin.specs.restore": "excluded_kinds",
    },
    Limit.STATUSES: {"pinnace.restore.engine": "Limit.STATUSES"},
    Limit.VOLUMES: {
        "pinnace.restore.item.handlers.volumes": "is_old_storage",
        "pinnace.restore.item.context": "Limit.VOLUMES",
    },
    Limit.LOCATION: {
        "pinnace.controllers.shared.confinement": "excluded_kinds",
        "pinnace.nonadmin.specs.restore": "excluded_kinds",
    },
    Limit.ANSWERS: {"pinnace.restore.engine": "Limit.ANSWERS", "pinnace.restore.passes": "Limit.ANSWERS"},
}
"""The modules that enforce a limit, and what each reads of this page."""


def excluded_kinds(*, trusted: bool, allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """The kinds that a tenant's Restore excludes by name.

    Args:
        trusted: whether the administrator's own location holds the backup.
        allowed: kinds that the administrator's settings allow, by their plural alone or with their group.
    """
    if not trusted:
        return (*UNTRUSTED_EXCLUDED, *SNAPSHOT_KINDS)
    plurals = {name.partition(".")[0] for name in allowed}
    return tuple(kind for kind in GUARDED_KINDS if kind.partition(".")[0] not in plurals)


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

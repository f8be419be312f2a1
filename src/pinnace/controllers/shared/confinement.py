"""Limits what a restore takes from a location that belongs to a tenant. Pure. (NAC 17 A13, A15, A35)

The owner of a bucket can write everything in it: the tarball, the list of snapshots, the name of every
object. A restore for a tenant is confined by the rules of self-service; the same holds for a Restore of the
administrator, unless its label says that the content is trusted. The narrowed spec is stored in the Restore.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from pinnace.api.nonadmin.names import RESTORABLE_ANNOTATION, TRUST_LABEL, TRUST_VALUE, Origin
from pinnace.api.nonadmin.restore_limits import TenantLimits, excluded_kinds
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore, RestoreSpec

ALL: Final = ("", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The limits of a restore.

    Attributes:
        restore: the Restore with its narrowed spec.
        tenant: the namespace that the backup's location belongs to; empty for the administrator's.
        trusted: whether the content of the backup is trusted.
        limits: what it may create at most; None for anything, which only a trusted one may.
        problem: why it cannot be carried out at all; empty if it can.
        caveat: what is left out although the spec asks for it; empty if nothing is.
    """

    restore: Restore
    tenant: str = ""
    trusted: bool = True
    limits: TenantLimits | None = None
    problem: str = ""
    caveat: str = ""


def confined(restore: Restore, tenant: str) -> Confinement:
    """Narrow a Restore to what may come from a tenant's location.

    Args:
        tenant: the owner of the location; empty for the administrator's, where everything may come from.
    """
    if not tenant or restore.metadata.labels.get(TRUST_LABEL) == TRUST_VALUE:
        return Confinement(restore=restore, tenant=tenant)
    spec = restore.spec
    if not _admits(spec, tenant):
        problem = (
            f"the backup lies in a location of the namespace {tenant}, and only that namespace can be"
            f" restored from there: include it, or label the Restore {TRUST_LABEL}={TRUST_VALUE} if you trust"
            " all that its owner can have written there"
        )
        return Confinement(restore=restore, tenant=tenant, trusted=False, problem=problem)
    narrow = msgspec.structs.replace(
        spec,
        included_namespaces=[tenant],
        excluded_namespaces=[],
        excluded_resources=_joined(spec.excluded_resources, excluded_kinds(trusted=False)),
        include_cluster_resources=False,
        restore_pvs=False,
    )
    caveat = (
        f"the backup lies in a location of the namespace {tenant}, whose owner can have written anything"
        " there: nothing is restored but objects of that namespace, without volume snapshots, roles, quotas"
        f" and endpoints; to restore everything, label a new Restore {TRUST_LABEL}={TRUST_VALUE}"
    )
    asked = spec.restore_pvs is False and spec.include_cluster_resources is False
    return Confinement(
        restore=msgspec.structs.replace(restore, spec=narrow),
        tenant=tenant,
        trusted=False,
        caveat="" if asked and spec.included_namespaces == [tenant] else caveat,
    )


def is_bounded(confinement: Confinement) -> bool:
    """Whether a restore may create only what a tenant may: for a tenant, or with a tenant's data."""
    return not confinement.trusted or _is_for_tenant(confinement.restore)


def bounded(confinement: Confinement, role: JSONObject, canonical: Callable[[str], str]) -> Confinement:
    """Bound a restore by a role of tenants. (docs/spec: NAC 17 A36)

    What the administrator's settings allow beyond the role holds for backups in the administrator's own
    location only: in a tenant's, a role binding says whatever the tenant wrote.

    Args:
        canonical: gives `pods` for `po`.
    """
    annotations = confinement.restore.metadata.annotations
    listed = annotations.get(RESTORABLE_ANNOTATION, "") if confinement.trusted else ""
    allowed = [canonical(name) for name in listed.split(",") if name]
    return replace(confinement, limits=TenantLimits.of_role(role, allowed))


def _is_for_tenant(restore: Restore) -> bool:
    return Origin.RESTORE.namespace_annotation in restore.metadata.annotations


def _admits(spec: RestoreSpec, tenant: str) -> bool:
    included = spec.included_namespaces
    return tenant not in spec.excluded_namespaces and (
        not included or any(name in (*ALL, tenant) for name in included)
    )


def _joined(given: Iterable[str], more: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*given, *more)))

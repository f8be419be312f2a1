"""Decides which kinds and items a restore leaves out before it looks into them. (docs/spec: RST 5, 10, 25)"""

import msgspec

from pinnace.api.kinds import DATA_UPLOADS, PERSISTENT_VOLUMES
from pinnace.api.nonadmin.exclusions import SNAPSHOT_KINDS
from pinnace.api.nonadmin.restore_limits import TenantLimits
from pinnace.api.restore_outcomes import Outcome
from pinnace.notices.codes import Code
from pinnace.restore.errors import LeftOut
from pinnace.restore.item.known_kinds import KnownKinds
from pinnace.restore.item.refusals import refusal
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.selection.validation import NON_RESTORABLE


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one restore.

    Attributes:
        has_moved_data: whether moved data is restored with its claims.
    """

    kinds: KnownKinds
    limits: TenantLimits | None
    has_moved_data: bool

    def check(self, ref: ItemRef, *, is_forced: bool = False) -> None:
        """Raise LeftOut for an item that is not restored; only selected items were filtered before.

        Args:
            is_forced: whether the filters that the user has set do not count.
        """
        if is_forced:
            if ref.group_resource in NON_RESTORABLE:
                raise LeftOut("its resource is never restored")
        else:
            self._check_filters(ref)
        if left := self.of_kind(ref.group_resource, is_namespaced=bool(ref.target_namespace)):
            if left.outcome is Outcome.REFUSED:
                warned = f"{ref.id} was not restored: {left.reason}"
                left.warning = ref.notice(Code.NOT_PERMITTED_TO_TENANT, warned)
            raise left

    def _check_filters(self, ref: ItemRef) -> None:
        filters = self.kinds.filters
        if not filters.resources.matches(ref.group_resource):
            raise LeftOut("its resource is excluded")
        if ref.original_namespace and not filters.namespaces.matches(ref.original_namespace):
            raise LeftOut("its namespace is excluded")
        if not ref.original_namespace and not filters.admits_cluster_scoped:
            raise LeftOut("cluster-scoped resources are excluded")

    def of_kind(self, group_resource: str, *, is_namespaced: bool) -> LeftOut | None:
        """Why a kind is not restored: without a warning, or refused; None if it may be."""
        if group_resource == DATA_UPLOADS.group_resource and self.has_moved_data:
            return LeftOut("it is the record of moved data, which is restored with its claim")
        is_handled = self.kinds.actions.handles(group_resource)
        reason = refusal(group_resource, is_handled=is_handled)
        # Volumes are checked one by one; the actions for CSI snapshots have their own limits for tenants.
        is_checked_later = group_resource == PERSISTENT_VOLUMES.group_resource or (
            is_handled and group_resource in SNAPSHOT_KINDS
        )
        if reason is None and self.limits is not None and not is_checked_later:
            reason = self.limits.refusal(group_resource, is_namespaced=is_namespaced)
        return None if reason is None else LeftOut(reason, Outcome.REFUSED)

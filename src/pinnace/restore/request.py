"""The request of a restore, and the settings of its installation."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.nonadmin.restore_limits import Limit, TenantLimits
from pinnace.api.selection.filter_policies import NO_FILTER_POLICIES, FilterPolicies
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import ITEM_OPERATION_TIMEOUT, Backup
from pinnace.api.velero.restore import Restore
from pinnace.catalogue.records import BackupRecords
from pinnace.plugins.item_operations import StartedOperations
from pinnace.restore.definitions import DEFAULT_RESOURCE_TIMEOUT_SECONDS
from pinnace.restore.journal import RestoreJournal
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.selection.order import DEFAULT_LAST, DEFAULT_PRIORITIES
from pinnace.runs.activity import Activity

WORKERS: Final = 48
"""How many items of one kind are restored at once. API servers get no faster beyond 64 requests in flight,
and are idle with fewer than 32; an item waits for one request at a time."""

DEFAULT_TERMINATING_TIMEOUT_SECONDS: Final = 600.0


class RestoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A completed Restore, and the files and records of its backup.

    Attributes:
        limits: of a restore for a tenant, or from a tenant's location; None for an administrator's.
        modifiers: rules that change objects before they are created; None for none.
        policies: filters by namespace and kind.
        caveats: notes for the user; each becomes a warning.
        started: gets the operations that actions start.
        activity: told what is being restored.
        journal: what a resumed restore needs to know.
    """

    restore: Restore
    backup: Backup
    records: BackupRecords = msgspec.field(default_factory=BackupRecords)
    limits: TenantLimits | None = None
    modifiers: ResourceModifiers | None = None
    policies: FilterPolicies = NO_FILTER_POLICIES
    caveats: Sequence[str] = ()
    started: StartedOperations = msgspec.field(default_factory=StartedOperations)
    activity: Activity = msgspec.field(default_factory=Activity)
    journal: RestoreJournal = msgspec.field(default_factory=RestoreJournal)

    @property
    def kept_limits(self) -> Collection[Limit]:
        """The limits of tenants that the restore keeps to: all of them, or none."""
        return () if self.limits is None else tuple(Limit)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of every object of this restore."""
        return {
            labels.BACKUP_NAME: labels.label_value(self.restore.spec.backup_name),
            labels.RESTORE_NAME: labels.label_value(self.restore.metadata.name),
        }


class RestoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the server, or of the command that runs the engine itself.

    Attributes:
        priorities: kinds to restore first, in order; replaces the default list as a whole.
        last: kinds to restore after all others, in order.
        terminating_timeout_seconds: how long to wait for namespaces and volumes that are being deleted.
        resource_timeout_seconds: how long restored definitions are waited for in all, and the additional
            items of an item if its action sets no timeout.
        features: enabled feature flags.
        workers: how many items of one kind are restored at once.
        operation_timeout: of operations that plugins start, for a Restore that sets none.
        default_modifiers: the ConfigMap with resource modifiers for Restores that name none; empty if there
            is none.
    """

    priorities: Sequence[str] = DEFAULT_PRIORITIES
    last: Sequence[str] = DEFAULT_LAST
    terminating_timeout_seconds: float = DEFAULT_TERMINATING_TIMEOUT_SECONDS
    resource_timeout_seconds: float = DEFAULT_RESOURCE_TIMEOUT_SECONDS
    features: Collection[str] = ()
    workers: int = WORKERS
    operation_timeout: Duration = ITEM_OPERATION_TIMEOUT
    default_modifiers: str = ""

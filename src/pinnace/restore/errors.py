"""The errors of a restore, or of one item of it.

RestoreError
├── BackupLookupError   a backup, its location or its store is not available (validation)
├── SetupError          the engine cannot begin: one Velero-level error, nothing restored
├── NamespaceError      a target namespace is not available: its items are left out
├── ResourceError       the API has no resource for an item: a Velero-level error
├── ItemError           one item fails; the others are restored
├── LeftOut             one item is not restored, which is no failure
└── RestoreFailed       the restore as a whole is Failed; the text is its failureReason

A failed item is data (results.py), a restore that cannot run is an exception. (docs/spec: RST 4, 22)
"""

from pinnace.api.restore_outcomes import Outcome
from pinnace.notices.notice import Notice, Reported


class RestoreError(Exception):
    """Base of the errors of this package."""


class BackupLookupError(RestoreError):
    """The text follows `Error retrieving backup: ` in the validation errors."""


class SetupError(Reported, RestoreError):
    """Nothing was restored; the text is the one Velero-level error."""


class NamespaceError(Reported, RestoreError):
    """The text is the Velero-level error of every item of that namespace."""


class ResourceError(Reported, RestoreError):
    """The text is a Velero-level error; only this item is left out."""


class ItemError(Reported, RestoreError):
    """The text is the error filed under the item's namespace."""


class LeftOut(RestoreError):
    """The text is the reason, as the outcomes have it.

    Attributes:
        outcome: of the item.
        warning: for the user; None for none.
    """

    def __init__(
        self, reason: str, outcome: Outcome = Outcome.SKIPPED, warning: Notice | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome
        self.warning = warning


class RestoreFailed(RestoreError):
    """The restore ends `Failed`; the text becomes `status.failureReason`."""

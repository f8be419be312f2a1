"""Errors of the backup engine.

    BackupError
    +-- FatalBackupError   the backup as a whole cannot continue; its phase becomes Failed
    +-- ItemFailed         one item is not in the backup; the others continue

An item that fails is data: it is logged and counted, and `phases.ended` decides by the count. (docs/spec: BKP
3.3)
"""

from collections.abc import Sequence

from pinnace.api.values.error_texts import error_text
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, Reported, notice_of


class BackupError(Reported):
    """Base of the errors of the engine."""


class FatalBackupError(BackupError):
    """Ends the backup; what was written so far is still uploaded. (docs/spec: BKP 3.2)"""


class ItemFailed(BackupError):
    """One item could not be backed up; each of its errors counts. (docs/spec: BKP 3.4)"""

    def __init__(self, errors: Sequence[BaseException]) -> None:
        self.errors = tuple(errors)
        texts = list(dict.fromkeys(error_text(error) for error in errors))
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        super().__init__(notice_of(self.errors[0] if self.errors else None, Code.ITEM_NOT_SAVED, text))


def list_failure(error: KubeError, forbidden: Code, text: str) -> Notice:
    """The notice about a list that failed; what may not be listed can be left out, hence a code of its"
    " own."""
    notice = notice_of(error, Code.LIST_FAILED, text)
    return Notice(forbidden, text, **notice.facts) if notice.code is Code.RIGHTS_MISSING else notice

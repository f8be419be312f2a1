"""A warning or an error of a run: one text for people, and its code and facts for programs."""

import errno
from collections.abc import Callable, Mapping
from typing import Any, Final

from pinnace.notices.codes import Code


class Notice(str):
    """The text of a warning or an error. A function that wants a `Notice` refuses a text without a code.

    Attributes:
        code: the kind of the warning or error; it stays when texts change.
        facts: what the text says, by name: `object`, `user`, `quota`, ... Advice is made from them.
    """

    __slots__ = ("code", "facts")
    code: Code
    facts: Mapping[str, str]

    def __new__(cls, code: Code, text: str, /, **facts: str) -> "Notice":
        notice = super().__new__(cls, text)
        notice.code, notice.facts = code, facts
        return notice

    def __reduce__(self) -> tuple[Callable[..., "Notice"], tuple[Code, str, dict[str, str]]]:
        return _restored, (self.code, str(self), dict(self.facts))

    def saying(self, text: str) -> "Notice":
        """The same code and facts with another text, such as one that names more."""
        return Notice(self.code, text, **self.facts)


def _restored(code: Code, text: str, facts: dict[str, str]) -> Notice:
    return Notice(code, text, **facts)


class Coded:
    """An error that knows what it is about, whatever was being done when it came.

    Attributes:
        notice_code: of every error of the class whose text names no nearer cause.
    """

    notice_code: Code

    def cause(self) -> tuple[Code, Mapping[str, str]]:
        """The code of notices about this error, and what its text says."""
        return self.notice_code, {}


class Reported(Coded, Exception):
    """An error that is made with its notice; a class of errors puts this before its own base.

    Attributes:
        notice: also the text of the exception.
    """

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice)
        self.notice = notice

    def cause(self) -> tuple[Code, Mapping[str, str]]:
        """The code and facts of the notice."""
        return self.notice.code, self.notice.facts


def notice_of(error: object, code: Code, text: str, /, **facts: str) -> Notice:
    """A notice about something that failed with an error.

    The code is the error's own where it has one, as the cause says more than the step: a quota that is
    exceeded needs the same advice whatever was created.

    Args:
        code: for errors without one.
    """
    if isinstance(error, Coded):
        cause, said = error.cause()
        return Notice(cause, text, **{**said, **facts})
    if isinstance(error, OSError) and not isinstance(error, (TimeoutError, ConnectionError)):
        code = Code.DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else Code.DISK_FAULT
    return Notice(code, text, **facts)


OWN_PART: Final = "pinnace"
"""The key of a results file that Velero does not read; it has `notices`."""


def to_json(
    notice: Notice,
    severity: str,
    namespace: str = "",
    *,
    facts: Mapping[str, str] = {},
    hide: Callable[[str], str] = str,
) -> dict[str, Any]:
    """The entry of a notice in a results file and in `-o json`. (docs/reference/notices.md)

    Args:
        severity: `warning` or `error`.
        namespace: of the list that has the text; empty for the run itself and for cluster-scoped objects.
        facts: more of them.
        hide: removes from each text the parts that its reader may not see.
    """
    entry: dict[str, Any] = {"severity": severity, "code": str(notice.code), "message": hide(notice)}
    if namespace:
        entry["namespace"] = hide(namespace)
    if said := {name: hide(value) for name, value in {**facts, **notice.facts}.items()}:
        entry["facts"] = said
    return entry

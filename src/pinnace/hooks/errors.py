"""The errors of hooks.

HookError
├── HookFailed    a hook could not be run, or its command failed
└── InvalidHooks  the hooks of a Restore are not valid
"""

from pinnace.notices.notice import Reported


class HookError(Exception):
    """Base of the errors of hooks."""


class HookFailed(Reported, HookError):
    """A hook could not be run, or its command failed."""


class InvalidHooks(HookError):
    """The hooks in a Restore's spec are not valid; the text says why."""

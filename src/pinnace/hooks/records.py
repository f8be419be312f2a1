"""The record of the restore hooks that began and ended, for a restore that goes on after its process died.

A command in a container may have had its effect whether or not its end was seen. Therefore its begin is
recorded before it is sent, and one without a recorded end is never sent again. (docs/adr/131)
"""

from typing import Protocol

import msgspec

from pinnace.notices.notice import Notice


class HookKey(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of one pod.

    Attributes:
        position: in the list of the hooks of the pod, which is the same for every run of a restore.
    """

    namespace: str
    pod: str
    container: str
    position: int


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a hook that an interrupted restore began.

    Attributes:
        failure: why it failed; None for success.
        has_ended: whether its end was recorded.
    """

    failure: Notice | None = None
    has_ended: bool = True


class HookRecords(Protocol):
    """Keeps the records of one restore."""

    def known(self, key: HookKey) -> HookRecord | None:
        """The record of an interrupted run; None if the hook has not begun."""
        ...

    async def begins(self, key: HookKey) -> None:
        """Record that the command is about to be sent; it is, when this returns."""
        ...

    async def ended(self, key: HookKey, failure: Notice | None) -> None:
        """Record that the command has ended."""
        ...


class NoHookRecords:
    """Records nothing, for restores that cannot be resumed."""

    def known(self, key: HookKey) -> HookRecord | None:
        """Nothing is known."""
        return None

    async def begins(self, key: HookKey) -> None:
        """Do nothing."""

    async def ended(self, key: HookKey, failure: Notice | None) -> None:
        """Do nothing."""

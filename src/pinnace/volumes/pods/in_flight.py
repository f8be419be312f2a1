"""Volumes of a pod that its node agent was asked to save."""

from collections.abc import Awaitable, Callable, Sequence


class VolumesInFlight:
    """Volumes of a pod that a node agent was asked to save.

    Attributes:
        errors: of the volumes that nobody could be asked to save; each counts once.
    """

    def __init__(
        self,
        errors: Sequence[Exception] = (),
        ended: Callable[[], Awaitable[Sequence[Exception]]] | None = None,
    ) -> None:
        self.errors = errors
        self._ended = ended

    async def ended(self) -> Sequence[Exception]:
        """Wait until the agent is done with all of them, and return the errors. Call it once."""
        return await self._ended() if self._ended is not None else ()

"""The interface of a run's log for engines and hooks; `RunLog` implements it."""

from typing import Protocol


class EventLog(Protocol):
    """The log of one run: constant events with facts as fields."""

    def debug(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """A line for debugging."""
        ...

    def info(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """What was done, and what was left out by rule."""
        ...

    def warning(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """What a user should look at."""
        ...

    def error(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """What went wrong."""
        ...

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **fields: object
    ) -> None:
        """A line of an action."""
        ...

"""The interface of a run's log for engines and hooks; `RunLog` implements it."""

from typing import Protocol

from pinnace.notices.notice import Notice


class EventLog(Protocol):
    """The log of one run: constant events with facts as fields."""

    def debug(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Log a line for debugging."""
        ...

    def info(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Log an action that was done, or that a rule left out."""
        ...

    def warning(self, msg: Notice, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Log a problem that a user should look at."""
        ...

    def error(self, msg: Notice, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Log a failure."""
        ...

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **fields: object
    ) -> None:
        """Log a line of an action, at a level given by name."""
        ...

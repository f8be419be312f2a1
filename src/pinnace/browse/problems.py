"""Problems of one kind, however many there are, in a line for a person. Pure."""

from collections.abc import Iterable
from typing import Final

_NAMED: Final = 5


class Problems:
    """All are counted, the first are named."""

    def __init__(self) -> None:
        self.count = 0
        self._named: list[str] = []

    def add(self, text: str) -> None:
        """Count one, and remember it if it is among the first."""
        self.count += 1
        if len(self._named) < _NAMED:
            self._named.append(text)

    def add_all(self, texts: Iterable[str]) -> None:
        """Add each."""
        for text in texts:
            self.add(text)

    def __str__(self) -> str:
        more = f"; and {self.count - len(self._named)} more" if self.count > len(self._named) else ""
        return "; ".join(self._named) + more

"""What a description leaves out, as it cannot be read."""

from pinnace.cli.errors import OPENED_BY
from pinnace.cli.guard import complain
from pinnace.storage.key_errors import IdentityMissing, IdentityRefused

ENCRYPTED = "<encrypted>"


class Unshown:
    """Collects the parts that cannot be shown, and says on stderr why.

    Args:
        title: of the object, as `backup b1`.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._sealed: list[str] = []
        self._reason = ""

    def add(self, what: str, error: Exception) -> None:
        """Say that a part cannot be shown. What an identity would open is said at the end, in one line."""
        if not self.is_sealed(what, error):
            complain(f"the {what} of {self._title} cannot be shown: {error}")

    def text(self, what: str, error: Exception, reading: str) -> str:
        """The text in place of a part, which needs no line on stderr unless an identity would open it."""
        return ENCRYPTED if self.is_sealed(what, error) else f"<error {reading}: {error}>"

    def is_sealed(self, what: str, error: Exception) -> bool:
        """Whether an identity would open the part; it is said at the end then."""
        if not isinstance(error, IdentityMissing | IdentityRefused):
            return False
        self._sealed.append(what)
        self._reason = error.reason
        return True

    def say(self) -> None:
        """Say what an identity would show."""
        if self._sealed:
            parts = ", ".join(self._sealed)
            complain(f"what is encrypted of {self._title} is not shown ({parts}): {self._reason}{OPENED_BY}")

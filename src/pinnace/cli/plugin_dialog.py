"""Messages and questions of age's plugins on the terminal."""

import getpass
import sys

from pinnace.age.errors import InvalidIdentity
from pinnace.cli.guard import complain


class TerminalDialog:
    """The dialog of plugins on the terminal of the command."""

    def show(self, text: str) -> None:
        """Print a message to stderr."""
        complain(text)

    def confirm(self, text: str, yes: str, no: str) -> bool:
        """Let the user type one of two answers. Raises InvalidIdentity without a terminal."""
        while (answer := self.ask(f"{text} ({yes}/{no})", secret=False).strip()) not in (yes, no):
            complain(f"{answer!r} is none of the answers")
        return answer == yes

    def ask(self, text: str, *, secret: bool) -> str:
        """Read a line, unseen if it is secret. Raises InvalidIdentity without a terminal."""
        if sys.stdin is None or not sys.stdin.isatty():
            raise InvalidIdentity(f"it asks {text!r}: run the command on a terminal")
        if secret:
            return getpass.getpass(f"{text} ")
        sys.stderr.write(f"{text} ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InvalidIdentity(f"it asks {text!r}, and was not answered")
        return line.rstrip("\n")

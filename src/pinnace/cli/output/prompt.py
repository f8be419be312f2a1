"""The question before something is deleted. (docs/spec: CLI 9)"""

import sys


def confirmed(flag: str = "--confirm") -> bool:
    """Ask until the answer is y or n. Raises NotConfirmed at the end of the input, where there is no answer.

    Args:
        flag: the one of the command that answers yes.
    """
    while True:
        print("Are you sure you want to continue (Y/N)? ", end="", flush=True)
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line.endswith("\n"):
            from pinnace.cli.errors import NotConfirmed

            print()
            raise NotConfirmed(f"error reading user input: EOF; nothing was done. {flag} answers yes")
        answer = line.strip().lower()
        if answer in ("y", "n"):
            return answer == "y"


def on_terminal() -> bool:
    """Whether a user can be asked; a script has set its flags on purpose."""
    return sys.stdin is not None and sys.stdin.isatty()


def exactly_one(names: int, everything: bool, selector: object, what: str) -> None:
    """Refuse anything but exactly one way of choosing objects. Raises InvalidInput."""
    from pinnace.cli.errors import InvalidInput

    if [names > 0, everything, selector is not None].count(True) != 1:
        raise InvalidInput(
            f"you must specify exactly one of: specific {what} name(s), the --all flag, "
            "or the --selector flag"
        )

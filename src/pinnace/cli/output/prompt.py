"""The question before something is deleted. (docs/spec: CLI 9)"""

import sys

from pinnace.cli.guard import complain


def confirmed() -> bool:
    """Ask until the answer is y or n. The end of the input means no."""
    while True:
        print("Are you sure you want to continue (Y/N)? ", end="", flush=True)
        line = sys.stdin.readline()
        if not line.endswith("\n"):
            complain("error reading user input: EOF")
            return False
        answer = line.strip().lower()
        if answer in ("y", "n"):
            return answer == "y"


def exactly_one(names: int, everything: bool, selector: object, what: str) -> None:
    """Exactly one way of choosing must be given. Raises CommandError."""
    from pinnace.cli.errors import InvalidInput

    if [names > 0, everything, selector is not None].count(True) != 1:
        raise InvalidInput(
            f"you must specify exactly one of: specific {what} name(s), the --all flag, "
            "or the --selector flag"
        )

"""Numbers and shortened lists in sentences. Pure."""

from collections.abc import Sequence


def counted(number: int, what: str) -> str:
    """`1 error`, `2,000 errors`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def first_names(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`: the first names, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")

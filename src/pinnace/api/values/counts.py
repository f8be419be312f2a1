"""Numbers and shortened lists in sentences. Pure."""

from collections.abc import Sequence


def counted(number: int, what: str, several: str = "") -> str:
    """`1 error`, `2,000 errors`; the plural is given where it is not that with an s."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def first_names(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`: the first names, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")

"""Numbers in sentences, in the singular and in the plural."""

import pytest

from pinnace.api.values.counts import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("error",), "0 errors"),
        (1, ("error",), "1 error"),
        (2000, ("error",), "2,000 errors"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_one_is_singular(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said

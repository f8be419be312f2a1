"""Regular expressions for names: the matches of Python's engine, in linear time, and the syntax of RE2."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.restore.modifiers.expression_syntax import ExpressionError
from pinnace.restore.modifiers.expressions import NameExpression

_ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "-",
        ".",
        "[ab]",
        "[^a]",
        "[a-c-]",
        r"\d",
        r"\W",
        r"[\w.]",
        "^",
        "$",
        r"\b",
        r"\B",
        r"\.",
        "a{2}",
    ]
)
_REPEATS = st.sampled_from(["", "*", "+", "?", "*?", "{1,2}", "{2,}", "{0}"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.lists(st.tuples(inner, _REPEATS), min_size=1, max_size=3)
    return parts.map(lambda found: "".join(f"(?:{part}){sign}" for part, sign in found)) | st.tuples(
        inner, inner
    ).map("|".join)


PATTERNS = st.recursive(_ATOMS, _larger, max_leaves=8)
NAMES = st.text("ab1-._", min_size=1, max_size=8)
"""Not empty: Python up to 3.13 says that `\\B` is not in an empty text, and RE2 that it is."""


@given(PATTERNS, NAMES)
def test_it_matches_what_pythons_engine_matches(pattern: str, name: str) -> None:
    # Python's `$` holds before a last line break, too; there is none.
    assert NameExpression(pattern).search(name) == bool(re.search(pattern, name, re.ASCII))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", ["", "a"], []),
        ("^web-[0-9]+$", ["web-0", "web-12"], ["web-", "web-1x", "xweb-1"]),
        ("(?i)^WEB|api$", ["web-x", "Web", "x-API"], ["x-web"]),
        ("^(?P<kind>db|cache)-(?:a|b)$", ["db-a", "cache-b"], ["db-c"]),
        (r"\Qa.b\E$", ["xa.b"], ["aab"]),
        (r"^\x41\x{62}$", ["Ab"], ["ab"]),
        ("^[[:alpha:]]+[^[:digit:]]$", ["ab", "a-"], ["a1", "1"]),
        ("^[]a]+$", ["]a"], ["b"]),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        ("(?s:a.b)", ["a\nb"], ["ab"]),
        ("a.b", ["axb"], ["a\nb"]),
        ("(?m)^b$", ["a\nb\nc"], ["abc"]),
        (r"\bops\b", ["shop-ops", "ops"], ["shops"]),
        (r"\B", [""], ["a"]),
        ("^system:[^:]+:læser$", ["system:shop:læser"], ["system::læser"]),
    ],
)
def test_the_syntax_of_re2(pattern: str, matching: list[str], others: list[str]) -> None:
    expression = NameExpression(pattern)
    assert [name for name in (*matching, *others) if expression.search(name)] == matching


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a", "'(' without ')'"),
        ("a)", "')' without '('"),
        ("[a", "'[' without ']'"),
        ("*a", "nothing before '*' to repeat"),
        ("a**", "a repetition of a repetition needs a group"),
        ("a{2,1}", "a repetition from 2 to 1 times"),
        ("a{1001}", "more than 1000 repetitions"),
        ("((a{1000}){1000}){1000}", "more than 2000 parts"),
        ("(" * 51 + ")" * 51, "more than 50 groups within each other"),
        ("(?=a)", "'(?=' is not supported"),
        ("(?<!a)b", "look-around is not supported"),
        (r"(a)\1", "'\\1' is not supported"),
        (r"\pL", "'\\p' is not supported"),
        ("[b-a]", "does not end behind its beginning"),
        ("[[:nothing:]]", "[:nothing:] is not supported"),
        (r"\x{110000}", "is no character"),
        (r"\x4_", "is no character"),
        (r"\x{}", "is no character"),
        ("a\\", "nothing follows"),
        ("(?", "it ends within a group"),
    ],
)
def test_what_is_not_valid_or_too_much_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        NameExpression(pattern)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^([a-z]+-?)+$", "^(a|a)*$", "^(a*)*b$", "a*a*a*a*a*a*c", "^(a{0,30}){30}$"]
)
def test_a_name_that_would_take_pythons_engine_years_takes_no_time(pattern: str) -> None:
    """Whoever chooses names, such as a tenant, could keep a server from everything else."""
    assert not NameExpression(pattern).search("a" * 252 + "!")

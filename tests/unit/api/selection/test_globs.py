"""Glob patterns: the syntax, invalid patterns, and hostile ones."""

import re
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.selection.globs import Glob, GlobError, is_glob
from pinnace.api.selection.names import IncludesExcludes, validate


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("foo", ["foo"], ["", "fo", "fooo", "Foo"]),
        ("*", ["", "foo", "a.b/c"], []),
        ("**", ["", "a.b"], []),
        ("*.apps", ["deployments.apps", ".apps"], ["pods", "apps", "deployments.apps.x"]),
        ("a*b*c", ["abc", "aXbYc", "abbcc"], ["acb", "ab"]),
        ("a?c", ["abc", "a.c"], ["ac", "abbc"]),
        ("[abc]", ["a", "c"], ["d", "", "ab"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[a-cx]", ["b", "x"], ["w"]),
        ("[!a-c]", ["d", "!"], ["a", "b", ""]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"[\]\-a]", ["]", "-", "a"], ["\\"]),
        ("{a,b}", ["a", "b"], ["ab", "", "c"]),
        ("x{a,bc,}y", ["xay", "xbcy", "xy"], ["xabcy"]),
        ("*{a,ab}*c", ["abc", "ac", "xxabyyc"], ["bc"]),
        ("{a{b,c},d*}", ["ab", "ac", "d", "dxyz"], ["a", "b"]),
        (r"\*", ["*"], ["a", r"\*"]),
        (r"{a\,b,c\}}", ["a,b", "c}"], ["a", "b"]),
        ("a,b}]", ["a,b}]"], ["a"]),
        ("é?", ["éa", "éé"], ["e"]),
        ("", [""], ["a"]),
    ],
)
def test_syntax(pattern: str, matching: list[str], others: list[str]) -> None:
    glob = Glob(pattern)
    assert [text for text in matching + others if glob.matches(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[abc", "'[' without ']'"),
        ("[", "'[' without ']'"),
        ("[]", "'[]' without characters"),
        ("[!]", "'[]' without characters"),
        ("[c-a]", "range 'c-a' runs backwards"),
        ("[a-", "'[' without ']'"),
        ("{a,b", "'{' without '}'"),
        ("a\\", "nothing follows the last '\\'"),
        ("{" * 100, "braces nested too deeply"),
    ],
)
def test_invalid_patterns_say_why(pattern: str, why: str) -> None:
    with pytest.raises(GlobError) as caught:
        Glob(pattern)
    assert str(caught.value) == f'invalid pattern "{pattern}": {why}'


@pytest.mark.parametrize(("text", "expected"), [("a.b-c", False), ("a*", True), ("[a]", True), ("a}", False)])
def test_is_glob(text: str, expected: bool) -> None:
    assert is_glob(text) is expected


@pytest.mark.parametrize(
    "pattern", ["*a" * 400 + "*b", "{a,aa}" * 400 + "b", "{" * 30 + "*a" + ",*a}" * 30 + "b"]
)
def test_hostile_patterns_take_a_few_calls_for_each_character(pattern: str) -> None:
    """Backtracking would take more calls than the universe has time for."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        matches = Glob(pattern).matches("a" * 2000)
    finally:
        sys.setprofile(None)
    assert not matches
    assert 0 < calls < 10 * len(pattern)


_pieces = st.recursive(
    st.sampled_from(["a", "b", ".", "*", "**", "?", "[ab]", "[!a]", "[a-b]", r"\*"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: "{" + ",".join(branches) + "}"),
    ),
    max_leaves=8,
)


def _as_regex(pattern: str) -> str:
    """The obvious translation, good enough for short texts."""
    translated = pattern.replace(".", "[.]").replace("**", "*").replace(r"\*", "\0")
    for glob, regex in (("*", "(?s:.*)"), ("[!", "[^"), ("{", "(?:"), ("}", ")"), (",", "|"), ("\0", "[*]")):
        translated = translated.replace(glob, regex)
    return re.sub(r"\?(?![:s])", "(?s:.)", translated)


@given(_pieces, st.text(alphabet="ab.*", max_size=8))
def test_same_as_a_regular_expression(pattern: str, text: str) -> None:
    assert Glob(pattern).matches(text) == bool(re.fullmatch(_as_regex(pattern), text))


@pytest.mark.found("K-F3")
def test_a_pattern_longer_than_any_list_of_names_is_refused() -> None:
    with pytest.raises(
        GlobError, match=r'^invalid pattern "\*{60}\.\.\.": it has 4097 characters, at most 4096'
    ):
        Glob("*" * 4097)
    assert Glob("{" + ",".join(f"namespace-{number:03}" for number in range(290)) + "}").matches(
        "namespace-289"
    )


@pytest.mark.found("K-F3")
def test_many_patterns_cost_no_time() -> None:
    patterns = [f"team-{number:05}-*" for number in range(1300)]
    assert validate(patterns, ()) == []
    chosen = IncludesExcludes((), patterns)
    began = time.process_time()
    assert [name for name in (f"app-{number}" for number in range(1000)) if not chosen.matches(name)] == []
    assert time.process_time() - began < 2


@pytest.mark.found("K-F3")
def test_more_patterns_than_any_list_needs_are_an_error() -> None:
    (error,) = validate([f"team-{number:05}-*" for number in range(3000)], ())
    assert "the patterns of the lists have 36000 characters together, at most 16384 are allowed" in error
    assert validate([f"team-{number:05}-x" for number in range(30_000)], ()) == []

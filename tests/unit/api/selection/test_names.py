"""Include and exclude lists: what they admit, how they are checked and shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.selection.globs import Glob, is_glob
from pinnace.api.selection.names import IncludesExcludes, validate
from pinnace.api.selection.validation import namespace_list_errors, resource_list_errors

STAR_MUST_BE_ALONE = "includes list must either contain '*' only, or a non-empty list of items"
STAR_EXCLUDED = "excludes list cannot contain '*'"
IN_BOTH = "excludes list cannot contain an item in the includes list: "


@pytest.mark.spec("API-002", "BKP-034")
@pytest.mark.parametrize(
    ("includes", "excludes", "name", "expected"),
    [
        ([], [], "foo", True),
        (["*"], [], "foo", True),
        (["foo", "bar", "baz"], [], "foo", True),
        (["foo", "baz"], [], "bar", False),
        (["*"], ["foo"], "foo", False),
        (["*"], ["foo"], "bar", True),
        (["foo"], ["foo"], "foo", False),
        (["*.bar"], [], "foo.bar", True),
        (["*.bar"], [], "bar.foo", False),
        (["*"], ["*.bar"], "foo.bar", False),
        (["*"], ["*.bar"], "bar.foo", True),
    ],
)
def test_matching(includes: list[str], excludes: list[str], name: str, expected: bool) -> None:
    selection = IncludesExcludes(includes, excludes)
    assert selection.matches(name) is expected
    assert selection.matches(name) is expected, "the second answer is the remembered one"


@pytest.mark.parametrize(
    ("includes", "excludes", "name", "expected"),
    [
        (["[", "foo"], [], "foo", True),
        (["["], [], "[", False),
        ([], ["[", "foo"], "foo", False),
        ([], ["["], "bar", True),
        (["nosuch"], [], "pods", False),
        (["foo"], ["f*"], "foo", False),
        ([], ["*"], "foo", False),
        (["*", "pods"], [], "services", True),
    ],
    ids=lambda value: str(value),
)
def test_invalid_patterns_match_nothing_and_break_nothing(
    includes: list[str], excludes: list[str], name: str, expected: bool
) -> None:
    assert IncludesExcludes(includes, excludes).matches(name) is expected


@pytest.mark.spec("API-003", "BKP-008")
@pytest.mark.parametrize(
    ("includes", "excludes", "errors"),
    [
        ([], [], []),
        (["*"], [], []),
        pytest.param(["*", "*"], [], [], marks=pytest.mark.spec("API-034")),
        (["*", "foo"], [], [STAR_MUST_BE_ALONE]),
        (["foo"], ["*"], [STAR_EXCLUDED]),
        ([], ["*"], [STAR_EXCLUDED]),
        (["foo", "bar"], ["bar"], [IN_BOTH + "bar"]),
        (
            ["c", "b", "a", "*"],
            ["*", "c", "a"],
            [STAR_MUST_BE_ALONE, STAR_EXCLUDED, *(IN_BOTH + n for n in "*ac")],
        ),
        (["po"], ["pods"], []),
    ],
)
def test_validation(includes: list[str], excludes: list[str], errors: list[str]) -> None:
    assert validate(includes, excludes) == errors


def test_invalid_patterns_are_named() -> None:
    assert validate(["app-[", "{a"], ["x\\"]) == [
        "invalid pattern \"app-[\": '[' without ']'",
        "invalid pattern \"x\\\": nothing follows the last '\\'",
        "invalid pattern \"{a\": '{' without '}'",
    ]


def test_prefixed_for_describe() -> None:
    overlap = "excludes list cannot contain an item in the includes list: foo"
    assert resource_list_errors(["foo"], ["foo"]) == [f"Invalid included/excluded resource lists: {overlap}"]
    assert namespace_list_errors(["foo"], ["foo"]) == [
        f"Invalid included/excluded namespace lists: {overlap}"
    ]
    assert resource_list_errors(["*"], []) == namespace_list_errors([], ["a"]) == []


@pytest.mark.spec("API-004")
def test_display() -> None:
    assert IncludesExcludes(["foo", "bar"], []).include_list == "bar, foo"
    assert IncludesExcludes().include_list == "*"
    assert IncludesExcludes().exclude_list == "<none>"
    assert IncludesExcludes([], ["foo", "bar"]).exclude_list == "bar, foo"


@pytest.mark.parametrize(
    ("includes", "excludes", "everything"),
    [
        ([], [], True),
        (["*"], [], True),
        (["*", "*"], [], True),
        (["**"], [], False),
        (["*", "a"], [], False),
        (["a"], [], False),
        ([], ["a"], False),
    ],
)
def test_includes_everything(includes: list[str], excludes: list[str], everything: bool) -> None:
    assert IncludesExcludes(includes, excludes).includes_everything is everything


def test_resolved_lists() -> None:
    canonical = {"po": "pods", "deploy": "deployments.apps"}
    selection = IncludesExcludes.resolved(
        ["po", "deploy", "*.batch", "", "nosuch"], ["*", "", "po"], lambda name: canonical.get(name, name)
    )
    assert selection == IncludesExcludes(["pods", "deployments.apps", "*.batch", "nosuch"], ["pods"])
    assert IncludesExcludes.resolved(["*"], ["*"], str.upper).includes_everything


def test_value_semantics() -> None:
    one, other = IncludesExcludes(["b", "a", "a"], ["x"]), IncludesExcludes(["a", "b"], ["x"])
    assert one == other
    assert hash(one) == hash(other)
    assert one != IncludesExcludes(["a"], ["x"])
    assert one.includes == ("a", "b")
    assert repr(one) == "IncludesExcludes(includes=('a', 'b'), excludes=('x',))"


def test_answers_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinnace.api.selection.names._MAX_REMEMBERED", 3)
    selection = IncludesExcludes(["a*"])
    names = [f"{letter}{number}" for number in range(10) for letter in "ab"]
    assert [name for name in names if selection.matches(name)] == [name for name in names if name[0] == "a"]
    assert len(selection._answers) <= 3


_entries = st.lists(
    st.sampled_from(["*", "foo", "bar", "f*", "*.bar", "[", "ba?", "{foo,x}", "foo.bar"]), max_size=4
)


def _naive(pattern: str, name: str) -> bool:
    if pattern == "[":
        return False
    return Glob(pattern).matches(name) if is_glob(pattern) else pattern == name


@given(_entries, _entries, st.lists(st.sampled_from(["foo", "bar", "baz", "foo.bar", "x", ""]), max_size=8))
def test_agrees_with_the_definition(includes: list[str], excludes: list[str], names: list[str]) -> None:
    selection = IncludesExcludes(includes, excludes)
    for name in names:
        admitted = not includes or "*" in includes or any(_naive(pattern, name) for pattern in includes)
        excluded = any(_naive(pattern, name) for pattern in excludes)
        assert selection.matches(name) == (admitted and not excluded)

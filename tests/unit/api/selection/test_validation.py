"""Names and patterns of namespaces in a spec. (docs/spec: BEY 4.6)"""

import pytest

from pinnace.api.selection.validation import namespace_list_errors

_REFUSED = ["a**", "a{b,c}", "a|b", "(a)", "!a", "a[", "a[]", "a]", "app.prod", "app+", r"a\*"]


@pytest.mark.spec("BEY-028")
@pytest.mark.parametrize("name", _REFUSED)
def test_what_no_namespace_can_be_called_is_refused(name: str) -> None:
    for included, excluded in (([name], []), ([], [name])):
        (problem,) = namespace_list_errors(included, excluded)
        assert problem.startswith("Invalid included/excluded namespace lists: invalid namespace")
        assert f'"{name}"' in problem


@pytest.mark.parametrize("name", ["app-*", "ns?", "ns[12]", "ns[a-z]x", "*", "", "a", "1" * 63])
def test_names_and_patterns_are_accepted(name: str) -> None:
    assert namespace_list_errors([name], []) == []


def test_the_lists_are_compared_too() -> None:
    problems = namespace_list_errors(["a", "*"], ["a", "b."])
    assert [problem.removeprefix("Invalid included/excluded namespace lists: ") for problem in problems] == [
        "includes list must either contain '*' only, or a non-empty list of items",
        "excludes list cannot contain an item in the includes list: a",
        'invalid namespace "b.": must be lower case letters, digits or "-", with a letter or digit at both'
        " ends, 63 at most",
    ]

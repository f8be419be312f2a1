"""orLabelSelectors: which objects they select, and the flag. (docs/spec: BEY 4.5)"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.meta import LabelSelector
from pinnace.api.selection.label_choice import LabelChoice, label_choice_errors, parse_or_selectors
from pinnace.api.selection.selectors import Selector

_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
_SELECTORS = st.builds(
    lambda labels: LabelSelector(match_labels=labels),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1, max_size=2),
)


@given(st.lists(_SELECTORS, min_size=1, max_size=4), _LABELS)
def test_an_object_is_selected_if_and_only_if_a_selector_matches(
    selectors: list[LabelSelector], labels: dict[str, str]
) -> None:
    choice = LabelChoice.of(None, selectors)
    assert choice.matches(labels) == any(
        Selector.from_label_selector(each).matches(labels) for each in selectors
    )
    assert choice.matches(labels) == any(Selector.parse(query).matches(labels) for query in choice.queries)
    assert not choice.empty


@pytest.mark.parametrize(
    "selectors", [[], [LabelSelector()], [LabelSelector(match_labels={"a": "1"}), LabelSelector()]]
)
def test_no_selector_or_an_empty_one_selects_everything_by_one_list(selectors: list[LabelSelector]) -> None:
    choice = LabelChoice.of(None, selectors)
    assert (choice.empty, choice.queries, choice.matches(None)) == (True, ("",), True)


@pytest.mark.spec("BEY-025")
def test_the_flag_has_selectors_with_or_between_them() -> None:
    assert [str(Selector.from_label_selector(each)) for each in parse_or_selectors("a=b or c in (d,e)")] == [
        "a=b",
        "c in (d,e)",
    ]
    assert str(LabelChoice.of(None, parse_or_selectors("a=b or c in (d,e)"))) == "a=b or c in (d,e)"


@pytest.mark.parametrize("text", ["a=b or (c)", "a b or c=d"])
def test_a_flag_that_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="couldn't parse the selector string"):
        parse_or_selectors(text)


def test_both_kinds_of_selectors_are_refused() -> None:
    one = LabelSelector(match_labels={"a": "1"})
    assert label_choice_errors(one, [one], "backup") == [
        "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified"
    ]
    assert label_choice_errors(one, [], "restore") == label_choice_errors(None, [one], "restore") == []


def test_an_invalid_selector_of_several_is_named() -> None:
    bad = LabelSelector(match_labels={"-": "1"})
    (problem,) = label_choice_errors(None, [LabelSelector(), bad], "restore")
    assert problem.startswith("invalid label selector in orLabelSelectors: invalid label key")

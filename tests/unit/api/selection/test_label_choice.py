"""orLabelSelectors: which objects they select, and the flag. (docs/spec: BEY 4.5)"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.meta import LabelSelector, LabelSelectorRequirement
from pinnace.api.selection.label_choice import (
    MOST_QUERIES,
    LabelChoice,
    label_choice_errors,
    parse_or_selectors,
)
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


_REQUIREMENTS = st.builds(
    LabelSelectorRequirement,
    key=st.sampled_from("abc"),
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.lists(st.sampled_from("12"), min_size=1, max_size=2),
) | st.builds(
    LabelSelectorRequirement, key=st.sampled_from("abc"), operator=st.sampled_from(["Exists", "DoesNotExist"])
)


@pytest.mark.found("Z3")
@given(
    st.lists(
        st.builds(LabelSelector, match_expressions=st.lists(_REQUIREMENTS, min_size=1, max_size=3)),
        min_size=1,
        max_size=12,
    ),
    _LABELS,
)
def test_many_selectors_are_matched_here_and_select_the_same(
    selectors: list[LabelSelector], labels: dict[str, str]
) -> None:
    choice = LabelChoice.of(None, selectors)
    assert choice.matches(labels) == any(
        Selector.from_label_selector(each).matches(labels) for each in selectors
    )
    assert choice.chooses_locally == (len(choice.selectors) > MOST_QUERIES)
    assert choice.queries == (("",) if choice.chooses_locally else tuple(map(str, choice.selectors)))


@pytest.mark.found("Z3")
def test_a_selector_too_long_for_a_request_is_matched_here() -> None:
    values = [f"v{number}" for number in range(5000)]
    terms = [LabelSelectorRequirement(key="a", operator="In", values=values)]
    choice = LabelChoice.of(LabelSelector(match_expressions=terms))
    assert choice.queries == ("",)
    assert choice.matches({"a": "v4999"})
    assert not choice.matches({"a": "v5000"})


@pytest.mark.found("Z3")
def test_thousands_of_selectors_and_values_cost_no_time() -> None:
    values = [f"v{number}" for number in range(1000)]
    selectors = [
        LabelSelector(
            match_labels={f"k{number}": "v"},
            match_expressions=[LabelSelectorRequirement(key="z", operator="NotIn", values=values)],
        )
        for number in range(1000)
    ]
    choice = LabelChoice.of(None, selectors)
    began = time.process_time()
    for number in range(5000):
        assert choice.matches({f"k{number}": "v", "z": "w"}) == (number < 1000)
    assert time.process_time() - began < 2


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

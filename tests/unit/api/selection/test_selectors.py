"""Label selectors: the text form, matching, and the form in specs."""

import pytest
from hypothesis import given

from pinnace.api.meta import LabelSelector, LabelSelectorRequirement
from pinnace.api.selection.selectors import Operator, Requirement, Selector, parse_label_selector
from tests.unit.api.strategies import labels, selectors


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("k=v", "k=v"),
        ("k==v", "k=v"),
        (" k = v ", "k=v"),
        ("k!=v", "k!=v"),
        ("k in (b,a)", "k in (a,b)"),
        ("k in(b , a,a)", "k in (a,b)"),
        ("k notin (x)", "k notin (x)"),
        ("k", "k"),
        ("!k", "!k"),
        ("! k", "!k"),
        ("k>5,j<7", "j<7,k>5"),
        ("z,a=1,!m", "a=1,!m,z"),
        ("k=", "k="),
        ("k==", "k="),
        ("k=,j", "j,k="),
        ("k in ()", "k in ()"),
        ("k in (,a)", "k in (,a)"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("notin=in", "notin=in"),
        ("velero.io/exclude-from-backup!=true", "velero.io/exclude-from-backup!=true"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(Selector.parse(text)) == canonical


_NO_SELECTORS = (
    *("=invalid-selector", "a,", ",a", "a,,b", "a b", "a=b c=d", "a=b=c", "a===b", "a&&b", "(a)"),
    *("a in", "a in (", "a in (b", "a in b", "a in (b c)", "a=(b)", "!", "!a=b", "a>b", "a>"),
    *(
        "-a",
        "a/b/c",
        "/a",
        "UPPER.io/",
        "UPPER.io/a",
        "a=-b",
        "é",
        "x" * 64,
        "a=" + "x" * 64,
        "x" * 254 + "/a",
    ),
)


@pytest.mark.parametrize("text", _NO_SELECTORS)
def test_invalid_text_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Selector.parse(text)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", [None, {}, {"a": "1"}], []),
        ("a=1", [{"a": "1", "b": ""}], [None, {}, {"a": "2"}]),
        ("a!=1", [None, {"a": "2"}], [{"a": "1"}]),
        ("a in (1,2)", [{"a": "2"}], [{}, {"a": "3"}]),
        ("a notin (1,2)", [{}, {"a": "3"}], [{"a": "2"}]),
        ("a", [{"a": ""}], [{}]),
        ("!a", [{}, None], [{"a": ""}]),
        ("a>5", [{"a": "6"}], [{}, {"a": "5"}, {"a": "x"}]),
        ("a<5", [{"a": "4"}, {"a": "-1"}], [{}, {"a": "5"}]),
        ("a=1,b", [{"a": "1", "b": "x"}], [{"a": "1"}, {"b": "x"}]),
    ],
)
def test_matching(
    text: str, matching: list[dict[str, str] | None], others: list[dict[str, str] | None]
) -> None:
    selector = Selector.parse(text)
    assert [present for present in matching + others if selector.matches(present)] == matching


def test_selectors_of_specs() -> None:
    selector = LabelSelector(
        match_labels={"b": "1"},
        match_expressions=[
            LabelSelectorRequirement(key="a", operator="In", values=["y", "x"]),
            LabelSelectorRequirement(key="c", operator="NotIn", values=["z"]),
            LabelSelectorRequirement(key="d", operator="Exists"),
            LabelSelectorRequirement(key="e", operator="DoesNotExist"),
        ],
    )
    assert str(Selector.from_label_selector(selector)) == "a in (x,y),b=1,c notin (z),d,!e"


@pytest.mark.parametrize("selector", [None, LabelSelector()])
def test_nil_and_empty_match_everything(selector: LabelSelector | None) -> None:
    taken = Selector.from_label_selector(selector)
    assert taken.empty
    assert taken.matches(None)
    assert str(taken) == ""


@pytest.mark.parametrize(
    "requirement",
    [
        LabelSelectorRequirement(key="a", operator="Gt", values=["1"]),
        LabelSelectorRequirement(key="a", operator="In"),
        LabelSelectorRequirement(key="a", operator="Exists", values=["x"]),
        LabelSelectorRequirement(key="", operator="Exists"),
    ],
)
def test_invalid_requirements_of_specs_refused(requirement: LabelSelectorRequirement) -> None:
    with pytest.raises(ValueError, match=r"."):
        Selector.from_label_selector(LabelSelector(match_expressions=[requirement]))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("k!=v", '"!=" is not a valid label selector operator'),
        ("k>1", '"gt" isn\'t supported in label selectors'),
        ("k<1", '"lt" isn\'t supported in label selectors'),
        (
            "a b",
            "couldn't parse the selector string \"a b\": found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a,", "couldn't parse the selector string \"a,\": found '', expected: identifier"),
    ],
)
def test_flag_values_refused_in_the_words_of_the_command_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_label_selector(text)
    assert str(caught.value) == problem


def test_flag_value_becomes_a_selector_of_a_spec() -> None:
    assert parse_label_selector("a==1,b in (y,x),c notin (z),!d,e") == LabelSelector(
        match_labels={"a": "1"},
        match_expressions=[
            LabelSelectorRequirement(key="b", operator="In", values=["x", "y"]),
            LabelSelectorRequirement(key="c", operator="NotIn", values=["z"]),
            LabelSelectorRequirement(key="d", operator="DoesNotExist"),
            LabelSelectorRequirement(key="e", operator="Exists"),
        ],
    )


def test_contradiction_is_not_lost_in_the_form_of_specs() -> None:
    selector = Selector.from_label_selector(parse_label_selector("a=1,a=2"))
    assert not selector.matches({"a": "1"})
    assert not selector.matches({"a": "2"})


@given(selectors)
def test_reading_inverts_writing(selector: Selector) -> None:
    again = Selector.parse(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)


@given(selectors, labels)
def test_form_of_specs_selects_the_same(selector: Selector, present: dict[str, str]) -> None:
    comparable = Selector(
        requirement
        for requirement in selector.requirements
        if requirement.operator in (Operator.EQUALS, Operator.IN, Operator.NOT_IN, Operator.EXISTS)
    )
    through_spec = Selector.from_label_selector(comparable.to_label_selector())
    assert through_spec.matches(present) == comparable.matches(present)


def test_value_semantics() -> None:
    assert Selector.parse("a,b") == Selector.parse("b,a")
    assert Selector.parse("a") != Selector.parse("b")
    assert repr(Selector.parse("a=1")) == "Selector.parse('a=1')"
    assert Requirement("a", Operator.IN, ("y", "x", "x")).values == ("x", "y")

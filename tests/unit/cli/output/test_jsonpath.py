"""`-o jsonpath` and `-o custom-columns`: what kubectl prints for the same."""

from typing import Any

import pytest

from pinnace.cli.output.jsonpath import compile_columns, compile_template

LIST: dict[str, Any] = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "a", "labels": {"app.io/x": "1"}},
            "status": {"phase": "Completed", "errors": 0},
        },
        {"metadata": {"name": "b"}, "status": {"phase": "Failed", "errors": 3, "list": ["x", "y"]}},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "List"),
        ("kind: {.kind}!", "kind: List!"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.name}", "a"),
        ("{.items[-1:].metadata.name}", "b"),
        ("{.items[0,1].metadata.name}", "a b"),
        ("{.items[7].metadata.name}", ""),
        ("{.items[*]['metadata'].name}", "a b"),
        ("{..phase}", "Completed Failed"),
        (r"{.items[0].metadata.labels.app\.io/x}", "1"),
        ("{.items[1].status.list}", '["x","y"]'),
        ('{.items[?(@.status.phase=="Failed")].metadata.name}', "b"),
        ("{.items[?(@.status.errors>0)].metadata.name}", "b"),
        ("{.items[?(@.status.list)].metadata.name}", "b"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.errors}{"\\n"}{end}', "a\t0\nb\t3\n"),
        ("{.absent.field}", ""),
    ],
)
def test_a_template_prints_what_kubectl_prints(template: str, text: str) -> None:
    assert compile_template(template)(LIST) == text


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{.items[}", "cannot read"),
        ("{.a", "brace"),
        ("{range .a}", "without {end}"),
        ("{end}", "without {range}"),
        ("{.items[?(x)]}", "cannot read"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused(template: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compile_template(template)


def test_custom_columns_have_a_header_and_none_for_missing_values() -> None:
    columns = compile_columns("NAME:.metadata.name,LIST:.status.list[*],NONE:.x,ONE:.status.list[0,1]")
    row = {name: cell(LIST["items"][1]) for name, cell in columns}
    assert row == {"NAME": "b", "LIST": "x,y", "NONE": "<none>", "ONE": "x,y"}


@pytest.mark.parametrize("text", ["NAME", ":.a", "A:", "A:.a,B"])
def test_columns_without_a_path_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected NAME:PATH|cannot read"):
        compile_columns(text)

"""The two line formats. Expected texts are what Go's logrus writes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.values.error_texts import error_text
from pinnace.archive.logfmt import (
    JSONFormatter,
    TextFormatter,
    level_rank,
    new_formatter,
    quote,
    value_text,
)

TIME = "2021-08-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", ""),
        ("velero/b-1_x.y@z^+", "velero/b-1_x.y@z^+"),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("line\nbreak\ttab\rreturn", r'"line\nbreak\ttab\rreturn"'),
        ("\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("grüße 世界 🎉", '"grüße 世界 🎉"'),
        ("\u202eevil\u2028", r'"\u202eevil\u2028"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("\udcff", r'"\xff"'),
    ],
)
def test_text_is_quoted_as_in_go(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "true"),
        (False, "false"),
        (None, "<nil>"),
        (["a", 1, None], "[a 1 <nil>]"),
        (2.5, "2.5"),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_values_that_are_not_text_are_printed_as_in_go(value: object, text: str) -> None:
    assert value_text(value) == text


def test_text_line_has_fields_in_alphabetical_order() -> None:
    formatter = TextFormatter()
    fields = {"resource": "pods", "backup": "velero/b1", "namespace": "", "name": "a b", "progress": ""}
    assert formatter.format(TIME, "info", "Backing up item", fields) == (
        'time="2021-08-01T00:00:00Z" level=info msg="Backing up item" '
        'backup=velero/b1 name="a b" namespace= progress= resource=pods\n'
    )
    # The same names in another order, and values that cannot be looked up or look alike.
    again = {"progress": ["x"], "name": 1, "namespace": True, "backup": 1.0, "resource": None}
    assert formatter.format(TIME, "info", "m", again).endswith(
        ' backup=1.0 name=1 namespace=true progress="[x]" resource="<nil>"\n'
    )
    assert formatter.format(TIME, "warning", "", {}) == f'time="{TIME}" level=warning msg=\n'
    assert (
        formatter.format(TIME, "info", "m", {"only": "one"}) == f'time="{TIME}" level=info msg=m only=one\n'
    )


def test_json_line_has_sorted_keys() -> None:
    line = JSONFormatter().format(TIME, "info", "Backing up item", {"resource": "pods", "name": "a", "n": 3})
    assert line == (
        '{"level":"info","msg":"Backing up item","n":3,"name":"a","resource":"pods",'
        '"time":"2021-08-01T00:00:00Z"}\n'
    )


def test_values_that_json_cannot_represent_are_written_all_the_same() -> None:
    line = JSONFormatter().format(
        TIME, "info", "bad \udcff", {"big": 2**70, "error": OSError("x"), "k": None}
    )
    assert json.loads(line) == {
        "big": 2**70,
        "error": "x",
        "k": None,
        "level": "info",
        "msg": "bad \udcff",
        "time": TIME,
    }


@pytest.mark.parametrize("format_name", ["text", "json"])
def test_a_field_cannot_pass_for_time_level_or_message(format_name: str) -> None:
    fields = {"level": "error", "msg": "forged", "time": "never"}
    line = new_formatter(format_name).format(TIME, "info", "real", fields)
    for name in ("level", "msg", "time"):
        assert f"fields.{name}" in line
    assert len(re.findall(r'(?:^|[ {,"])level"?[=:]', line)) == 1


def test_a_strange_key_is_made_harmless() -> None:
    line = TextFormatter().format(TIME, "info", "m", {"a=1\nlevel": "x", "": "y"})
    assert line == f'time="{TIME}" level=info msg=m =y a_1_level=x\n'


values = st.text() | st.integers() | st.booleans() | st.none() | st.lists(st.text(), max_size=2)


@given(message=st.text(), fields=st.dictionaries(st.text(max_size=8), values, max_size=5))
def test_no_content_breaks_the_line(message: str, fields: dict[str, object]) -> None:
    text = TextFormatter().format(TIME, "info", message, fields)
    assert len(text.splitlines()) == 1
    assert text.endswith("\n")
    assert text.startswith(f'time="{TIME}" level=info msg={quote(message)}')
    document = json.loads(JSONFormatter().format(TIME, "info", message, fields))
    assert document["msg"] == message
    assert document["level"] == "info"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoted_text_can_be_read_back(text: str) -> None:
    quoted = quote(text)
    if not quoted.startswith('"'):
        assert quoted == text
        return
    escapes = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] in "xuU" else escapes.get(code, code)

    read = re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", plain, quoted[1:-1], flags=re.DOTALL)
    assert read == text


def test_error_fields_name_the_origin_of_the_innermost_cause() -> None:
    def innermost() -> None:
        raise ValueError("no such thing")

    try:
        try:
            innermost()
        except ValueError as cause:
            raise OSError("cannot go on") from cause
    except OSError as error:
        text, as_json = TextFormatter().error_fields(error), JSONFormatter().error_fields(error)
    assert text["error"] == as_json["error.message"] == "cannot go on"
    assert "error" not in as_json
    assert re.fullmatch(r"archive/test_logfmt\.py:\d+", str(text["error.file"]))
    assert str(text["error.function"]).endswith("<locals>.innermost")


def test_error_from_our_own_code_is_preferred_to_the_library_below() -> None:
    try:
        level_rank("warn")
    except ValueError as error:
        fields = TextFormatter().error_fields(error)
    assert str(fields["error.file"]).startswith("pinnace/archive/logfmt.py:")
    assert fields["error.function"] == "pinnace.archive.logfmt.level_rank"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("plain"), "plain"),
        (ValueError(), "ValueError"),
        (KeyError("spec"), "KeyError: 'spec'"),
        (ExceptionGroup("two", [OSError("a"), ExceptionGroup("in", [OSError("b")])]), "a; b"),
    ],
)
def test_the_text_of_an_error_is_never_empty(error: Exception, text: str) -> None:
    assert error_text(error) == text
    assert set(TextFormatter().error_fields(error)) == {"error"}


def test_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="must be text or json"):
        new_formatter("xml")

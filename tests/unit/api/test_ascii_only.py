"""Numbers and white space are ASCII, as in Kubernetes and Go; Python alone takes those of every script."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import pinnace
from pinnace.api.selection.selectors import Selector
from pinnace.api.values import cron
from pinnace.api.values.digits import is_digits
from pinnace.api.values.durations import Duration
from pinnace.api.values.quantities import canonical_cpu, parse_quantity
from pinnace.cli.declaring.types import Number
from pinnace.server.monitoring.pages import parse_address

ARABIC, FULLWIDTH, SUPERSCRIPT, BLANK = "\u0663", "\uff13", "\u00b3", "\u00a0"


@pytest.mark.parametrize("digit", [ARABIC, FULLWIDTH, SUPERSCRIPT, f"{BLANK}3", f"3{BLANK}", "\u2003" + "3"])
@pytest.mark.parametrize(
    "parse",
    [
        pytest.param(parse_quantity, id="quantity"),
        pytest.param(lambda text: parse_quantity(f"1e{text}"), id="exponent"),
        pytest.param(lambda text: Duration.parse(f"{text}s"), id="duration"),
        pytest.param(lambda text: cron.parse(f"{text} * * * *"), id="cron"),
        pytest.param(lambda text: cron.parse(f"@every {text}m"), id="interval"),
        pytest.param(lambda text: Selector.parse(f"a={text}"), id="selector value"),
        pytest.param(lambda text: Selector.parse(f"a>{text}"), id="selector number"),
        pytest.param(lambda text: parse_address(f"127.0.0.1:{text}"), id="address"),
        pytest.param(Number().parse, id="number"),
        pytest.param(Number(whole=True).parse, id="whole number"),
    ],
)
def test_other_digits_and_blanks_are_refused(parse: Callable[[str], object], digit: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(digit)


@pytest.mark.parametrize("text", [f"a{BLANK}=b", f"{BLANK}a", f"a{BLANK}", f"a in (b{BLANK})", f"a{BLANK},b"])
def test_a_no_break_space_in_a_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid label"):
        Selector.parse(text)


def test_a_blank_of_another_script_does_not_part_the_fields_of_a_schedule() -> None:
    with pytest.raises(cron.CronError, match="Expected exactly 5 fields, found 1"):
        cron.parse(f"0{BLANK}0{BLANK}*{BLANK}*{BLANK}*")


@pytest.mark.parametrize(
    ("text", "amount"), [("5n", "5e-9"), ("250u", "0.00025"), ("1e3", "1000"), ("1E", "1e18")]
)
def test_small_and_large_quantities(text: str, amount: str) -> None:
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize(
    ("text", "cpu"), [("1n", "1m"), ("1500u", "2m"), ("1000000u", "1"), ("250m", "250m")]
)
def test_parts_of_a_thousandth_of_a_cpu_are_rounded_up(text: str, cpu: str) -> None:
    assert canonical_cpu(text) == cpu


@pytest.mark.parametrize("text", ["1e9999", "1e99999999999999999999", "1e-1000"])
def test_an_absurd_exponent_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantities"):
        parse_quantity(text)


def test_digits() -> None:
    assert is_digits("0123456789")
    assert not any(map(is_digits, ("", "-1", "1_0", ARABIC, SUPERSCRIPT, "1 ")))


def test_no_parser_asks_python_what_a_digit_is() -> None:
    """Only bytes are allowed here, whose digits are ASCII."""
    of_bytes = {"archive/tarformat.py", "archive/scan.py", "kube/transport/curl.py", "api/values/digits.py"}
    root = Path(pinnace.__file__).parent
    pattern = re.compile(r"\.is(digit|decimal|numeric)\(")
    found = {
        str(path.relative_to(root)) for path in root.rglob("*.py") if pattern.search(path.read_text("utf-8"))
    }
    assert found <= of_bytes

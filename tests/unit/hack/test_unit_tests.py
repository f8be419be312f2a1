"""The shares in which `make unit` runs the unit tests."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hack.unit_tests import WAITING, outcome, shares


@example(sizes={"a": 0, "b": 0}, number=2)  # empty files count too
@given(st.dictionaries(st.text(), st.integers(0, 10_000)), st.integers(1, 8))
def test_every_file_is_in_one_share(sizes: dict[str, int], number: int) -> None:
    dealt = shares(sizes.items(), number)

    assert sorted(name for share in dealt for name in share) == sorted(sizes)
    assert len(dealt) == min(number, len(sizes))


def test_shares_are_of_about_the_same_size() -> None:
    sizes = {str(number): number for number in range(100)}

    totals = [sum(sizes[name] for name in share) for share in shares(sizes.items(), 4)]

    assert max(totals) - min(totals) < 100


def test_the_files_that_wait_exist() -> None:
    assert [path for path in WAITING if not path.is_file()] == []


@pytest.mark.parametrize(
    ("codes", "code"),
    [([0, 0], 0), ([0, 1, 2], 1), ([0, 5], 0), ([5, 5], 5), ([5, 2], 2), ([-9, 0], -9)],
    ids=["passed", "failed", "some without tests", "no tests", "wrong words", "killed"],
)
def test_the_run_fails_if_one_share_does(codes: list[int], code: int) -> None:
    assert outcome(codes) == code

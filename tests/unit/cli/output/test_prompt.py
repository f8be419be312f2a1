"""The question before something is deleted."""

from io import StringIO

import pytest

from pinnace.cli.errors import NotConfirmed
from pinnace.cli.output.prompt import confirmed

QUESTION = "Are you sure you want to continue (Y/N)? "


@pytest.mark.parametrize(
    ("typed", "answer", "asked"),
    [("y\n", True, 1), (" Y \n", True, 1), ("n\n", False, 1), ("N\n", False, 1), ("x\nyes\nY\n", True, 3)],
)
def test_only_y_with_its_newline_means_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, answer: bool, asked: int
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(typed))

    assert confirmed() is answer

    assert capsys.readouterr() == (QUESTION * asked, "")


@pytest.mark.parametrize(("typed", "asked"), [("", 1), ("y", 1), ("\nn", 2)])
def test_the_end_of_the_input_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, asked: int
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(typed))

    with pytest.raises(NotConfirmed, match="error reading user input: EOF; nothing was done") as refused:
        confirmed()

    assert refused.value.exit_code == 2
    assert capsys.readouterr().out.count(QUESTION) == asked

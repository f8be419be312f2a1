"""The question before something is deleted."""

from io import StringIO

import pytest

from pinnace.cli.output.prompt import confirmed

QUESTION = "Are you sure you want to continue (Y/N)? "


@pytest.mark.parametrize(
    ("typed", "answer", "asked", "error"),
    [
        ("y\n", True, 1, ""),
        (" Y \n", True, 1, ""),
        ("n\n", False, 1, ""),
        ("N\n", False, 1, ""),
        ("x\nyes\nY\n", True, 3, ""),
        ("", False, 1, "error reading user input: EOF\n"),
        ("y", False, 1, "error reading user input: EOF\n"),
        ("\nn", False, 2, "error reading user input: EOF\n"),
    ],
)
def test_only_y_with_its_newline_means_yes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    answer: bool,
    asked: int,
    error: str,
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(typed))

    assert confirmed() is answer

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (QUESTION * asked, error)

"""Messages and questions of age's plugins on the terminal."""

import io

import pytest

from pinnace.age.errors import InvalidIdentity
from pinnace.cli.plugin_dialog import TerminalDialog


class Typed(io.StringIO):
    """A terminal on which lines are typed."""

    def isatty(self) -> bool:
        return True


def test_answers_are_typed_and_messages_steer_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("slot 1\nwhat\nyes\nno\n"))
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"<{prompt}>")
    dialog = TerminalDialog()
    dialog.show("touch\x1b[2J the key")
    assert dialog.ask("Which slot?", secret=False) == "slot 1"
    assert dialog.ask("PIN?", secret=True) == "<PIN? >"
    assert dialog.confirm("Go on?", "yes", "no")
    assert not dialog.confirm("Go on?", "yes", "no")
    with pytest.raises(InvalidIdentity, match="was not answered"):
        dialog.confirm("Go on?", "yes", "no")
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "'what' is none of the answers" in shown


def test_nobody_is_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidIdentity, match=r"it asks 'PIN\?': run the command on a terminal"):
        TerminalDialog().ask("PIN?", secret=True)

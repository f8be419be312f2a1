"""`client config get|set`."""

import json
import stat
from pathlib import Path

import pytest

from pinnace.cli.main import run


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the config file, which does not exist yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".config" / "velero" / "config.json"


def test_get_without_a_config_file_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "config", "get"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.spec("CLI-003")
def test_get_prints_what_set_has_stored(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    assert run(["client", "config", "set", "namespace=foo", "features=EnableCSI"]) == 0
    assert run(["client", "config", "get"]) == 0
    assert capsys.readouterr() == ("features: EnableCSI\nnamespace: foo\n", "")
    assert config.read_text() == '{"features":"EnableCSI","namespace":"foo"}\n'
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700

    assert run(["client", "config", "set", "features="]) == 0
    assert run(["client", "config", "get", "nope", "namespace", "features"]) == 0
    assert capsys.readouterr().out == "nope: <NOT SET>\nnamespace: foo\nfeatures: <NOT SET>\n"

    assert run(["client", "config", "set", "a=b=c", "plain", "cacert=/ca.pem"]) == 0
    assert capsys.readouterr().err == (
        'WARNING: invalid KEY=VALUE: "a=b=c"\nWARNING: invalid KEY=VALUE: "plain"\n'
    )
    assert json.loads(config.read_text()) == {"namespace": "foo", "cacert": "/ca.pem"}
    assert [path.name for path in config.parent.iterdir()] == ["config.json"]


def test_settings_are_printed_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "config", "set", "namespace=foo"]) == 0

    assert run(["client", "config", "get", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"namespace": "foo"}
    assert run(["client", "config", "get", "nope", "-o", "yaml"]) == 0
    assert capsys.readouterr().out == "nope: null\n"


def test_settings_of_other_programs_are_kept(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text('{"other": {"a": [1, true]}, "colorized": true}')

    assert run(["client", "config", "set", "namespace=foo"]) == 0

    assert json.loads(config.read_text()) == {
        "other": {"a": [1, True]},
        "colorized": True,
        "namespace": "foo",
    }
    assert run(["client", "config", "get"]) == 0
    assert capsys.readouterr().out == 'colorized: true\nnamespace: foo\nother: {"a": [1, true]}\n'


def test_a_symbolic_link_stays_a_link(config: Path, tmp_path: Path) -> None:
    config.parent.mkdir(parents=True)
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    config.symlink_to(target)

    assert run(["client", "config", "set", "namespace=foo"]) == 0
    assert config.is_symlink()
    assert target.read_text() == '{"namespace":"foo"}\n'


@pytest.mark.parametrize("content", ["{", "[]", "\xff"])
@pytest.mark.parametrize("words", [["get"], ["set", "a=b"]], ids=["get", "set"])
def test_a_broken_file_is_left_alone(
    capsys: pytest.CaptureFixture[str], config: Path, content: str, words: list[str]
) -> None:
    config.parent.mkdir(parents=True)
    config.write_text(content, encoding="latin-1")

    assert run(["client", "config", *words]) == 1

    assert f"An error occurred: cannot read the config file {config}: " in capsys.readouterr().err
    assert config.read_text(encoding="latin-1") == content


def test_a_folder_that_cannot_be_made_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / ".config").write_text("in the way")
    assert run(["client", "config", "set", "a=b"]) == 1
    assert "cannot" in capsys.readouterr().err


def test_set_without_words_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "config", "set"]) == 1
    assert "requires at least 1 arg(s), only received 0" in capsys.readouterr().err

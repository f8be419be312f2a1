"""The type of a backup on the command line. (docs/spec/after-1.18.md, 5.2)"""

import pytest
import yaml

from pinnace.cli.main import run


@pytest.mark.spec("AFT-002", "AFT-148")
@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["backup", "create", "b", "--dry-run=client"], []),
        (["schedule", "create", "s", "--schedule", "@daily"], ["template"]),
    ],
)
def test_the_type_is_taken_in_any_case(
    words: list[str], path: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--backup-type", "full", "-o", "yaml"]) == 0
    spec = yaml.safe_load(capsys.readouterr().out)["spec"]
    for key in path:
        spec = spec[key]
    assert spec["backupType"] == "Full"


@pytest.mark.spec("AFT-003")
def test_another_type_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "create", "b", "--backup-type", "x"]) == 1
    assert "invalid backup type x - valid values are 'Incremental', and 'Full'" in capsys.readouterr().err

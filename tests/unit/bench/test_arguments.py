"""The command line of the benchmark."""

import pytest

from bench.__main__ import parse


def test_defaults() -> None:
    options = parse([])
    assert (options.objects, options.namespaces, options.runs) == (10_000, 50, 5)
    first = ["backup", "restore", "memory", "dry-run", "start", "idle"]
    assert options.only == [*first, "restic", "kopia", "plugins", "nonadmin", "browse"]
    assert options.browse_objects == 100_000


def test_the_long_scenario_runs_only_when_it_is_named() -> None:
    options = parse(["soak", "--soak-minutes", "6"])
    assert (options.only, options.soak_minutes) == (["soak"], 6.0)


@pytest.mark.parametrize("arguments", [["--only", "backup,speed"], ["--runs", "0"]])
def test_nonsense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        parse(arguments)
    assert exit_info.value.code == 2
    assert "error:" in capsys.readouterr().err

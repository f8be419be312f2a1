"""The command line of the benchmark."""

import pytest

from bench.__main__ import parse, reasons


def test_without_arguments_all_short_scenarios_run() -> None:
    options = parse([])
    assert (options.objects, options.namespaces, options.runs) == (10_000, 50, 5)
    first = ["backup", "restore", "memory", "dry-run", "start", "idle"]
    assert options.only == [*first, "restic", "kopia", "plugins", "nonadmin", "browse", "encryption"]
    assert options.browse_objects == 100_000


def test_the_long_scenario_runs_only_when_it_is_named() -> None:
    options = parse(["soak", "--soak-minutes", "6"])
    assert (options.only, options.soak_minutes) == (["soak"], 6.0)


@pytest.mark.parametrize("arguments", [["--only", "backup,speed"], ["--runs", "0"]])
def test_invalid_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        parse(arguments)
    assert exit_info.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_each_error_of_a_group_is_reported() -> None:
    group = ExceptionGroup("tasks", [ValueError("one"), ExceptionGroup("inner", [TimeoutError()])])
    assert list(reasons(group)) == ["one", "TimeoutError"]

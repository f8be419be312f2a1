"""The Python API: what importing it loads, its requests, its errors."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pinnace
from pinnace.kube.errors import ConnectionFailed
from pinnace.programs._running import Reports, backup_request, phase_of, translated
from pinnace.storage.errors import StoreUnavailable


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import pinnace; new = set(sys.modules) - before;"
        "assert new <= {'pinnace'}, new; pinnace.Location('x'); pinnace.Cluster();"
        "assert not {'aiohttp', 'msgspec', 'pycurl', 'yaml', 'click'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_functions_stay_functions_when_the_packages_of_their_names_are_imported() -> None:
    code = (
        "import pinnace.backup.engine, pinnace.restore.engine, inspect;"
        "assert 'location' in inspect.signature(pinnace.backup).parameters;"
        "assert 'location' in inspect.signature(pinnace.restore).parameters"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_promised_name_is_there_and_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/python.md").read_text()
    for name in pinnace.__all__:
        assert getattr(pinnace, name) is not None
        assert f"{name}" in page, name
    with pytest.raises(AttributeError, match="has no attribute 'bakup'"):
        _ = pinnace.bakup  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        ({"included_namespaces": "shop"}, "included_namespaces must be a list of names, not the text 'shop'"),
        ({"excluded_resources": [1]}, "excluded_resources must be a list of names"),
        ({"labels": "a in b"}, "labels: couldn't parse the selector"),
    ],
)
def test_a_selection_that_means_something_else_is_refused(selection: dict[str, Any], text: str) -> None:
    with pytest.raises(pinnace.InvalidRequest, match=text):
        backup_request("b", pinnace.Cluster(), pinnace.Selection(**selection), pinnace.BackupOptions())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StoreUnavailable("gone"), pinnace.LocationError),
        (ExceptionGroup("tasks", [ConnectionFailed("gone")]), pinnace.ClusterError),
        (PermissionError(13, "Permission denied", "/x"), pinnace.PinnaceError),
    ],
)
def test_errors_of_the_lower_rooms_become_those_of_the_api(
    error: Exception, expected: type[Exception]
) -> None:
    with pytest.raises(expected), translated():
        raise error


def test_a_defect_is_not_dressed_up() -> None:
    with pytest.raises(ZeroDivisionError), translated():
        raise ZeroDivisionError


def test_a_missing_folder_is_an_error_and_not_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(pinnace.LocationError):
        pinnace.list_backups(pinnace.Location(tmp_path / "missing"))


def test_an_url_with_credentials_is_refused_and_not_repeated() -> None:
    location = pinnace.Location("s3://key:hunter2@bucket")

    with pytest.raises(pinnace.LocationError) as caught:
        pinnace.list_backups(location)

    assert "hunter2" not in str(caught.value) + repr(location)


async def test_a_script_function_in_a_running_loop_names_the_one_to_await(tmp_path: Path) -> None:
    with pytest.raises(pinnace.InvalidRequest, match=r"await pinnace\.list_backups_async\(\)"):
        pinnace.list_backups(pinnace.Location(tmp_path))


async def test_an_error_of_the_progress_callback_is_raised_after_the_run() -> None:
    calls = []

    def callback(progress: pinnace.Progress) -> None:
        calls.append(progress)
        raise KeyError("mine")

    reports = Reports(callback)
    await reports.publish(10, 1)
    await reports.publish(10, 2)
    result = pinnace.BackupResult(name="b", phase=pinnace.Phase.COMPLETED, items=1, errors=0, warnings=0)

    assert calls == [pinnace.Progress(done=1, total=10)]
    with pytest.raises(KeyError, match="mine"):
        reports.check(result)


def test_a_run_that_ended_failed_is_an_exception_with_its_result() -> None:
    result = pinnace.BackupResult(
        name="b", phase=pinnace.Phase.FAILED, items=0, errors=1, warnings=0, failure_reason="disk full"
    )

    with pytest.raises(pinnace.RunFailed, match="backup b failed: disk full") as caught:
        Reports(None).check(result)

    assert caught.value.result is result


def test_a_phase_of_another_version_is_unknown() -> None:
    assert (phase_of("Completed"), phase_of("Finalizing")) == (pinnace.Phase.COMPLETED, pinnace.Phase.UNKNOWN)

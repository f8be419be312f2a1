"""Which clock the server follows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import TZPATH

import pytest

from pinnace.runtime.zone import local_zone

SUMMER = datetime(2021, 8, 11, 12, tzinfo=UTC)


def zone_file(name: str) -> Path:
    found = [Path(root) / name for root in TZPATH if (Path(root) / name).exists()]
    if not found:
        pytest.skip("the system has no zone database")
    return found[0]


def offset(environ: dict[str, str], localtime: Path) -> timedelta | None:
    return SUMMER.astimezone(local_zone(environ, localtime=localtime)).utcoffset()


@pytest.mark.parametrize("name", ["Europe/Berlin", ":Europe/Berlin", "a path"])
def test_the_environment_names_the_zone(tmp_path: Path, name: str) -> None:
    given = str(zone_file("Europe/Berlin")) if name == "a path" else name

    assert offset({"TZ": given}, tmp_path / "missing") == timedelta(hours=2)


def test_without_tz_the_zone_of_the_system_is_used(tmp_path: Path) -> None:
    localtime = tmp_path / "localtime"
    localtime.symlink_to(zone_file("Asia/Kolkata"))

    assert offset({}, localtime) == timedelta(hours=5, minutes=30)
    assert offset({"TZ": ""}, localtime) == timedelta()
    assert offset({"TZ": "America/New_York"}, localtime) == timedelta(hours=-4)


@pytest.mark.parametrize("name", ["Nowhere/Land", "../../etc/passwd", "/etc/passwd", "/missing", ":", "x\0y"])
def test_an_unknown_zone_means_utc_with_a_warning(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert local_zone({"TZ": name}, localtime=tmp_path / "missing") is UTC
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_damaged_localtime_file_means_utc(tmp_path: Path) -> None:
    localtime = tmp_path / "localtime"
    localtime.write_bytes(b"not a zone")

    assert local_zone({}, localtime=localtime) is UTC
    assert local_zone({}, localtime=tmp_path / "missing") is UTC

"""Locations that real Velero servers wrote, and an empty one of ours."""

from pathlib import Path

import pytest

from tests.support.stores import golden


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty location, which all commands of the test use."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "location"
    folder.mkdir()
    monkeypatch.setenv("PINNACE_LOCATION", str(folder))
    return folder


@pytest.fixture(params=golden.VERSIONS)
def velero(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bucket of a Velero server as location, which all commands of the test use."""
    monkeypatch.setenv("HOME", str(tmp_path))
    bucket = golden.unpack(request.param, tmp_path)
    monkeypatch.setenv("PINNACE_LOCATION", str(bucket))
    return bucket

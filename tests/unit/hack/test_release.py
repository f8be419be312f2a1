"""The parts of a release, and the checkouts that are refused."""

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from hack import release

EPOCH = 1_772_366_400


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pinnace-0.0.1.tar.gz").write_text("a former release")
    (tmp_path / "SHA256SUMS").write_text("0  pinnace-0.0.1.tar.gz\n")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(release.ReleaseError, match=r"has files that are no release, such as thesis\.tex"):
        release.prepare(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3

    (tmp_path / "thesis.tex").unlink()
    release.prepare(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_chart_of_a_release_has_its_version(tmp_path: Path) -> None:
    path = tmp_path / "chart.tgz"
    path.write_bytes(release.chart("7.8.9", EPOCH))

    with tarfile.open(path) as archive:
        described = archive.extractfile("pinnace/Chart.yaml")
        assert described is not None
        text = described.read().decode()
        assert archive.getmember("pinnace/values.yaml").mtime == EPOCH
    assert "\nversion: 7.8.9\nappVersion: 7.8.9\n" in text


def test_every_component_has_a_version_and_hashes() -> None:
    listed = json.loads(json.dumps(release.components_of("1.0.0")))

    names = {component["name"] for component in listed["components"]}
    assert {"aiohttp", "click", "grpcio"} <= names
    assert listed["metadata"]["component"]["purl"] == "pkg:pypi/pinnace@1.0.0"
    assert all(component["hashes"] and component["version"] for component in listed["components"])


def test_the_version_of_an_earlier_release_is_refused(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    git("commit", "--allow-empty", "-m", "one")
    release.check_is_new("1.0.0", tmp_path)
    git("tag", "v1.0.0")
    release.check_is_new("1.0.0", tmp_path)
    git("commit", "--allow-empty", "-m", "two")
    release.check_is_new("1.0.1", tmp_path)
    with pytest.raises(release.ReleaseError, match=r"v1\.0\.0 is the tag of an earlier commit"):
        release.check_is_new("1.0.0", tmp_path)


def test_a_tag_of_another_version_is_refused() -> None:
    release.check_tag("v1.2.3", "1.2.3")
    with pytest.raises(release.ReleaseError, match=r"tag v1\.2\.4 is not v1\.2\.3"):
        release.check_tag("v1.2.4", "1.2.3")

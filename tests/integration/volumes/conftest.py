"""Real restic, with repositories in folders and in buckets; the cluster with their locations is in memory."""

import shutil
from pathlib import Path

import pytest

from hack.cluster.stores.s3 import Bucket
from tests.support.volumes.volume_labs import Lab, cloud_lab


@pytest.fixture(scope="session")
def restic_program() -> str:
    program = shutil.which("restic")
    if program is None:
        pytest.skip("restic is not installed (Debian: apt-get install restic)")
    return program


@pytest.fixture
def folder_lab(restic_program: str, tmp_path: Path) -> Lab:
    """A lab whose repository is in a folder."""
    return Lab(
        tmp_path,
        {
            "provider": "pinnace.io/filesystem",
            "config": {"path": str(tmp_path)},
            "objectStorage": {"bucket": "bucket", "prefix": "site"},
        },
    )


@pytest.fixture
def bucket_lab(restic_program: str, tmp_path: Path, bucket: Bucket) -> Lab:
    """A lab whose repository is in a bucket, with the credentials in a Secret."""
    return cloud_lab(tmp_path, bucket)


@pytest.fixture(params=["folder", "bucket"])
def lab(request: pytest.FixtureRequest) -> Lab:
    """Both, one after the other."""
    found: Lab = request.getfixturevalue(f"{request.param}_lab")
    return found

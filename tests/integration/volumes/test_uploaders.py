"""restic and kopia as uploaders: one behaviour."""

import shutil

import pytest

from hack.cluster import binaries
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import Repository
from tests.support.volumes.uploader_conformance import UploaderConformance, UploaderLab
from tests.support.volumes.volume_labs import Lab


class TestRestic(UploaderConformance):
    keeps_unchanged = False  # before restic 0.17 all files are written

    @pytest.fixture
    def lab(self, folder_lab: Lab) -> UploaderLab:
        assert shutil.which("restic") is not None
        return UploaderLab(folder_lab.restic, folder_lab.repository, folder_lab)


class TestKopia(UploaderConformance):
    @pytest.fixture
    def lab(self, folder_lab: Lab) -> UploaderLab:
        lab = folder_lab
        (lab.volume.parent / "bucket").mkdir(exist_ok=True)
        uploader = Kopia(lab.accesses, program=str(binaries.locate(binaries.UPLOADER)["kopia"]))
        return UploaderLab(uploader, Repository(location="default", namespace="shop"), lab)

"""What kopia prints: the policy of a repository, and the snapshot that was made."""

import copy
import json
from typing import Any

import pytest

from pinnace.volumes.kopia.commands import POLICY
from pinnace.volumes.kopia.output import is_image, parse_policy_fits


def policy(**sections: dict[str, Any]) -> bytes:
    """The policy that Pinnace sets, as kopia prints it, with more settings in sections."""
    printed = copy.deepcopy(dict(POLICY)) | {"upload": {"maxParallelSnapshots": 1}, "logging": {}}
    for section, settings in sections.items():
        printed[section] = printed.get(section, {}) | settings
    return json.dumps(printed).encode()


@pytest.mark.parametrize(
    "sections",
    [{}, {"files": {"ignore": [], "maxFileSize": 0}}, {"upload": {"maxParallelFileReads": 4}}],
    ids=["as set", "nothing left out", "other sections"],
)
def test_a_policy_that_saves_and_keeps_everything_fits(sections: dict[str, Any]) -> None:
    assert parse_policy_fits(policy(**sections), POLICY)


@pytest.mark.parametrize(
    "sections",
    [
        {"files": {"ignore": ["*.log"]}},
        {"files": {"maxFileSize": 1000}},
        {"files": {"ignoreCacheDirs": True}},
        {"retention": {"keepLatest": 10}},
        {"retention": {"ignoreIdenticalSnapshots": True}},
        {"errorHandling": {"ignoreFileErrors": True}},
    ],
    ids=lambda sections: json.dumps(sections),
)
def test_a_policy_that_leaves_out_files_or_snapshots_does_not_fit(sections: dict[str, Any]) -> None:
    assert not parse_policy_fits(policy(**sections), POLICY)


@pytest.mark.parametrize("output", [b"", b"{}", b"[]", b"no JSON", b'{"files":[]}'])
def test_a_strange_policy_does_not_fit(output: bytes) -> None:
    assert not parse_policy_fits(output, POLICY)


@pytest.mark.found("G3")
@pytest.mark.spec("AFT-138")
@pytest.mark.parametrize(
    ("manifest", "image"),
    [
        ({"source": {"path": "snapshot-data-upload-download/velero-block/shop/data"}}, True),
        ({"source": {"path": "renamed"}, "tags": {"snapshot-uploader": "velero-block"}}, True),
        ({"source": {"path": "renamed"}, "tags": {"tag:snapshot-uploader": "velero-block"}}, True),
        ({"source": {"path": "snapshot-data-upload-download/kopia/shop/data"}, "tags": {}}, False),
        ({"source": {"path": "/host_pods/x/velero-block-2"}, "tags": {"snapshot-uploader": "kopia"}}, False),
        ({"source": None, "tags": []}, False),
        ({}, False),
    ],
)
def test_an_image_of_a_device_is_told_by_its_path_or_its_tag(manifest: dict[str, Any], image: bool) -> None:
    """It must never be written into a volume as a file, whatever its DataUpload says of it."""
    printed = b"// id: 1\n// labels: x:y\n" + json.dumps(manifest).encode()
    assert is_image(printed) is image

"""What of EBS snapshots needs no service: ids of volumes and the configuration."""

from typing import Any

import pytest

from pinnace.storage.errors import StoreConfigError
from pinnace.volumes.disks.aws import EBSSnapshotter
from pinnace.volumes.native.snapshotters import SnapshotError

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.mark.spec("STO-035")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1c/vol-abc123"}}, "vol-abc123"),
        ({"awsElasticBlockStore": {"volumeID": "vol-abc123"}}, "vol-abc123"),
        ({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-abc123"}}, "vol-abc123"),
        ({"csi": {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1"}}, ""),
        ({"hostPath": {}}, ""),
    ],
)
async def test_ids(spec: dict[str, Any], expected: str) -> None:
    assert await EBSSnapshotter(environ=KEYS).get_volume_id({"spec": spec}) == expected


@pytest.mark.spec("STO-035")
@pytest.mark.parametrize("source", [{"volumeID": ""}, {}])
async def test_an_id_that_is_missing(source: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError, match=r"spec.awsElasticBlockStore.volumeID not found"):
        await EBSSnapshotter(environ=KEYS).get_volume_id({"spec": {"awsElasticBlockStore": source}})


@pytest.mark.spec("STO-035")
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"failure-domain.beta.kubernetes.io/zone": "us-east-1a"}, "aws://us-east-1a/vol-updated"),
        ({}, "vol-updated"),
        (None, "vol-updated"),
    ],
)
async def test_another_volume(labels: dict[str, str] | None, expected: str) -> None:
    volume = {"metadata": {"labels": labels}, "spec": {"awsElasticBlockStore": {"volumeID": "vol-old"}}}

    changed = await EBSSnapshotter(environ=KEYS).set_volume_id(volume, "vol-updated")

    assert changed["spec"]["awsElasticBlockStore"]["volumeID"] == expected
    csi = {"spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-old"}}}
    changed = await EBSSnapshotter(environ=KEYS).set_volume_id(csi, "vol-updated")
    assert changed["spec"]["csi"]["volumeHandle"] == "vol-updated"
    with pytest.raises(SnapshotError, match=r"spec.awsElasticBlockStore not found"):
        await EBSSnapshotter(environ=KEYS).set_volume_id({"spec": {}}, "vol-updated")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "missing region in aws configuration"),
        (
            {"region": "r", "foo": "1"},
            r"config has invalid keys \[foo\]; valid keys are \[region profile credentialsFile\]",
        ),
    ],
)
async def test_refused_configurations(config: dict[str, str], text: str) -> None:
    with pytest.raises(SnapshotError, match=text):
        await EBSSnapshotter(environ=KEYS).init(config)


async def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreConfigError, match="no AWS credentials found"):
        await EBSSnapshotter(environ={"HOME": ""}).init({"region": "r"})

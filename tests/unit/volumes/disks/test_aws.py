"""EBS snapshots: ids of volumes, the configuration, and a lost answer, with a script in place of EC2."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from pinnace.storage.errors import StoreConfigError
from pinnace.store_access.requests import RequestPolicy
from pinnace.volumes.disks.aws import EBSSnapshotter
from pinnace.volumes.native.snapshotters import SnapshotError
from tests.support.clock import FakeClock

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
async def test_the_id_of_a_volume_is_found_in_its_handle(spec: dict[str, Any], expected: str) -> None:
    assert await EBSSnapshotter(environ=KEYS).get_volume_id({"spec": spec}) == expected


@pytest.mark.spec("STO-035")
@pytest.mark.parametrize("source", [{"volumeID": ""}, {}])
async def test_a_missing_id_is_an_error(source: dict[str, Any]) -> None:
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
async def test_a_persistent_volume_is_changed_to_another_volume(
    labels: dict[str, str] | None, expected: str
) -> None:
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
            r"config has invalid keys \[foo\]; valid keys are \[region profile credentialsFile enableShared",
        ),
    ],
)
async def test_invalid_configurations_are_refused(config: dict[str, str], text: str) -> None:
    with pytest.raises(SnapshotError, match=text):
        await EBSSnapshotter(environ=KEYS).init(config)


async def test_missing_credentials_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreConfigError, match="no AWS credentials found"):
        await EBSSnapshotter(environ={"HOME": ""}).init({"region": "r"})


NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start_time", "expected"),
    [
        ("2026-03-01T12:00:00.123Z", "snap-found"),
        ("2026-03-01T11:56:00.000Z", "snap-found"),
        ("2026-03-01T11:00:00.000Z", "snap-new"),
        ("", "snap-new"),
    ],
    ids=["new", "EC2's clock is slow", "of a former backup of the same name", "no time"],
)
async def test_after_a_lost_answer_only_a_snapshot_of_this_attempt_is_taken_for_it(
    start_time: str, expected: str
) -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        (action,) = parse_qs((await request.read()).decode())["Action"]
        asked.append(action)
        if asked.count("CreateSnapshot") == 1 and action == "CreateSnapshot":
            return web.Response(status=503)
        members = {
            "DescribeVolumes": "<volumeSet><item><volumeId>vol-1</volumeId></item></volumeSet>",
            "DescribeSnapshots": "<snapshotSet><item><snapshotId>snap-found</snapshotId>"
            f"<startTime>{start_time}</startTime></item></snapshotSet>",
            "CreateSnapshot": "<snapshotId>snap-new</snapshotId>",
        }
        return web.Response(text=f"<{action}Response>{members[action]}</{action}Response>")

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0][:2]
        environ = {**KEYS, "AWS_ENDPOINT_URL_EC2": f"http://{host}:{port}"}
        policy = RequestPolicy(attempts=3, base_seconds=0.0, request_seconds=20.0)
        snapshotter = EBSSnapshotter(environ=environ, policy=policy, clock=FakeClock(now=NOW))
        await snapshotter.init({"region": "eu-west-1"})

        assert await snapshotter.create_snapshot("vol-1", "", {"velero.io/backup": "b1"}) == expected
    finally:
        await runner.cleanup()

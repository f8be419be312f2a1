"""EBS snapshots against moto's server, which keeps volumes and snapshots as EC2 does."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from xml.etree.ElementTree import Element

import pytest

from hack.cluster.faults import ActAndRespond, CutBeforeRequest, DropResponse, Respond
from hack.cluster.proxy import FaultProxy, Upstream
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.clouds.aws.credentials import AccessKey, FixedCredentials
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.store_access.requests import RequestPolicy, child_text
from pinnace.volumes.disks.aws import EBSSnapshotter
from pinnace.volumes.disks.aws_requests import EC2, EC2Error, items, tag_specification, tags_of
from pinnace.volumes.disks.volumes import DiskInfo
from pinnace.volumes.native.snapshotters import SnapshotError
from tests.support.stores.moto import running_moto

REGION, ZONE = "eu-west-1", "eu-west-1b"
KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
QUICK = RequestPolicy(attempts=3, base_seconds=0.0, request_seconds=20.0)
TAGS = {"velero.io/backup": "b1", "velero.io/pv": "pv1"}

Open = Callable[..., Awaitable[EBSSnapshotter]]


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running server."""
    with running_moto(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture
def ec2(moto: str) -> EC2:
    """A client of EC2, for the preparations and checks of tests."""
    credentials = FixedCredentials(AccessKey(access_key_id="id", secret_access_key="secret"))
    return EC2(REGION, credentials, endpoint=moto, policy=QUICK, clock=SYSTEM_CLOCK)


@pytest.fixture
async def proxy(moto: str) -> AsyncIterator[FaultProxy]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(FaultProxy(Upstream(url=moto)))


@pytest.fixture
def opened(moto: str) -> Open:
    async def open_at(url: str = moto, **environ: str) -> EBSSnapshotter:
        snapshotter = EBSSnapshotter(environ={**KEYS, "AWS_ENDPOINT_URL_EC2": url, **environ}, policy=QUICK)
        await snapshotter.init({"region": REGION})
        return snapshotter

    return open_at


async def make_volume(
    ec2: EC2, kind: str = "gp2", *, tags: dict[str, str] | None = None, **params: str
) -> str:
    given = {"AvailabilityZone": ZONE, "Size": "10", "VolumeType": kind, **params}
    root = await ec2.call("CreateVolume", {**given, **tag_specification("volume", tags or {})}, "make")
    return child_text(root, "volumeId")


async def look(ec2: EC2, kind: str, one: str) -> Element:
    name = {"vol": "Volume", "sna": "Snapshot"}[one[:3]]
    (found,) = items(await ec2.call(f"Describe{name}s", {f"{name}Id.1": one}, "look"), f"{kind}Set")
    return found


async def snapshots_of(ec2: EC2, volume: str) -> list[Element]:
    params = {"Filter.1.Name": "volume-id", "Filter.1.Value.1": volume}
    return items(await ec2.call("DescribeSnapshots", params, "look"), "snapshotSet")


async def test_a_snapshot_has_the_tags_of_the_volume_and_of_the_backup(ec2: EC2, opened: Open) -> None:
    volume = await make_volume(ec2, tags={"team": "shop", "velero.io/pv": "old"})
    snapshotter = await opened()

    snapshot = await snapshotter.create_snapshot(volume, ZONE, TAGS)

    found = await look(ec2, "snapshot", snapshot)
    assert child_text(found, "volumeId") == volume
    assert tags_of(found) == {"team": "shop", **TAGS}


@pytest.mark.parametrize(
    ("kind", "params", "expected"),
    [
        ("gp2", {}, DiskInfo(volume_type="gp2")),
        ("io1", {"Iops": "300"}, DiskInfo(volume_type="io1", iops=300)),
        ("io2", {"Iops": "400"}, DiskInfo(volume_type="io2", iops=400)),
    ],
)
async def test_a_restored_volume_has_the_type_and_tags_of_the_old_one(
    ec2: EC2, opened: Open, kind: str, params: dict[str, str], expected: DiskInfo
) -> None:
    volume = await make_volume(ec2, kind, tags={"team": "shop"}, Encrypted="true", **params)
    snapshotter = await opened()
    info = await snapshotter.get_volume_info(volume, ZONE)
    assert info == expected
    snapshot = await snapshotter.create_snapshot(volume, ZONE, TAGS)

    restored = await snapshotter.create_volume_from_snapshot(snapshot, info.volume_type, ZONE, info.iops)

    assert restored != volume
    found = await look(ec2, "volume", restored)
    assert child_text(found, "snapshotId") == snapshot
    assert child_text(found, "availabilityZone") == ZONE
    assert child_text(found, "volumeType") == kind
    assert child_text(found, "encrypted") == "true"
    assert tags_of(found) == {"team": "shop", **TAGS}
    assert (await snapshotter.get_volume_info(restored, ZONE)).iops == expected.iops


async def test_a_restored_volume_is_tagged_with_the_new_cluster(ec2: EC2, opened: Open) -> None:
    owned = {"kubernetes.io/cluster/old": "owned", "KubernetesCluster": "old", "team": "shop"}
    volume = await make_volume(ec2, tags=owned)
    snapshotter = await opened(AWS_CLUSTER_NAME="new")
    snapshot = await snapshotter.create_snapshot(volume, ZONE, {})

    restored = await snapshotter.create_volume_from_snapshot(snapshot, "gp2", ZONE, None)

    assert tags_of(await look(ec2, "volume", restored)) == {
        "kubernetes.io/cluster/new": "owned",
        "KubernetesCluster": "new",
        "team": "shop",
    }


async def test_deleting_a_snapshot_twice_succeeds(ec2: EC2, opened: Open) -> None:
    volume = await make_volume(ec2)
    snapshotter = await opened()
    snapshot = await snapshotter.create_snapshot(volume, ZONE, TAGS)

    assert await snapshotter.has_snapshot(snapshot)
    await snapshotter.delete_snapshot(snapshot)
    assert await snapshots_of(ec2, volume) == []
    assert not await snapshotter.has_snapshot(snapshot)
    await snapshotter.delete_snapshot(snapshot)


async def test_a_missing_volume_or_snapshot_is_named(opened: Open) -> None:
    snapshotter = await opened()
    with pytest.raises(EC2Error, match=r"cannot look at volume vol-0123: .*\(InvalidVolume.NotFound\)"):
        await snapshotter.create_snapshot("vol-0123", ZONE, TAGS)
    with pytest.raises(EC2Error, match=r"snapshot|Snapshot"):
        await snapshotter.create_volume_from_snapshot("snap-0123", "gp2", ZONE, None)
    with pytest.raises(SnapshotError, match="does not name its zone"):
        await snapshotter.create_volume_from_snapshot("snap-0123", "gp2", "", None)


async def test_a_lost_answer_makes_no_second_snapshot(ec2: EC2, opened: Open, proxy: FaultProxy) -> None:
    """The request is carried out and its answer lost: the snapshot is found by its tags."""
    volume = await make_volume(ec2)
    snapshotter = await opened(proxy.url)
    proxy.rules.add(DropResponse(), method="POST", skip=1, times=1)  # the first looks at the volume

    snapshot = await snapshotter.create_snapshot(volume, ZONE, TAGS)

    assert [child_text(each, "snapshotId") for each in await snapshots_of(ec2, volume)] == [snapshot]


PAGE = b'<html xmlns="http://www.w3.org/1999/xhtml"><body>Please sign in</body></html>'
NO_ID = b"<CreateSnapshotResponse><status>pending</status></CreateSnapshotResponse>"


@pytest.mark.parametrize(
    "answer",
    [
        Respond(200, PAGE, {"Content-Type": "text/xml"}),
        Respond(200, b"{}"),
        Respond(200),
        Respond(200, NO_ID),
    ],
    ids=["page", "empty object", "nothing", "no id"],
)
@pytest.mark.parametrize("acted", [False, True], ids=["in EC2's place", "after EC2"])
async def test_a_snapshot_is_taken_in_spite_of_one_false_answer(
    ec2: EC2, opened: Open, proxy: FaultProxy, answer: Respond, acted: bool
) -> None:
    """A proxy that answers 200 to anything would have made a Completed snapshot without an id."""
    volume = await make_volume(ec2)
    snapshotter = await opened(proxy.url)
    fault = ActAndRespond(answer) if acted else answer
    proxy.rules.add(fault, method="POST", skip=1, times=1)  # the first looks at the volume

    snapshot = await snapshotter.create_snapshot(volume, ZONE, TAGS)

    assert [child_text(each, "snapshotId") for each in await snapshots_of(ec2, volume)] == [snapshot]


@pytest.mark.parametrize("body", [PAGE, b"{}", b""], ids=["page", "empty object", "nothing"])
async def test_a_false_answer_does_not_count_as_a_deletion(
    ec2: EC2, opened: Open, proxy: FaultProxy, body: bytes
) -> None:
    volume = await make_volume(ec2)
    snapshot = await (await opened()).create_snapshot(volume, ZONE, TAGS)
    proxy.rules.add(Respond(200, body))
    snapshotter = await opened(proxy.url)

    with pytest.raises(StoreUnavailable, match="this is not the service's answer"):
        await snapshotter.delete_snapshot(snapshot)
    with pytest.raises(StoreUnavailable, match="this is not the service's answer"):
        await snapshotter.has_snapshot(snapshot)
    assert len(await snapshots_of(ec2, volume)) == 1


async def test_faults_before_the_snapshot_are_tried_again(ec2: EC2, opened: Open, proxy: FaultProxy) -> None:
    volume = await make_volume(ec2)
    snapshotter = await opened(proxy.url)
    busy = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"
    proxy.rules.add(CutBeforeRequest(), method="POST", skip=1, times=1)
    proxy.rules.add(Respond(503, busy), method="POST", skip=3, times=1)

    await snapshotter.create_snapshot(volume, ZONE, TAGS)

    assert len(await snapshots_of(ec2, volume)) == 1


async def test_lasting_faults_end(opened: Open, proxy: FaultProxy) -> None:
    proxy.rules.add(Respond(503, b""))
    snapshotter = await opened(proxy.url)
    with pytest.raises(StoreUnavailable, match="cannot look at volume vol-1"):
        await snapshotter.create_snapshot("vol-1", ZONE, TAGS)


async def test_a_refusal_is_reported(opened: Open, proxy: FaultProxy) -> None:
    body = (
        b"<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized."
        b"</Message></Error></Errors></Response>"
    )
    proxy.rules.add(Respond(403, body))
    snapshotter = await opened(proxy.url)
    with pytest.raises(StorageError, match=r"not authorized. \(UnauthorizedOperation\)"):
        await snapshotter.get_volume_info("vol-1", ZONE)
    assert datetime.now(UTC).strftime("%Y%m%d") in proxy.exchanges[0].headers["Authorization"]
    assert "/eu-west-1/ec2/aws4_request" in proxy.exchanges[0].headers["Authorization"]

"""Checks that each CSI driver has one VolumeSnapshotClass that a backup would choose."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from pinnace.api.objects import JSONObject, mapping
from pinnace.csi.snapshots import CSIError, choose_class
from pinnace.doctor.findings import Finding, listed, ok, problem, skipped, warning
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES, VOLUME_SNAPSHOT_CONTENTS
from pinnace.notices.codes import Code

CHECK = "snapshots"
_CLASSES = replace(VOLUME_SNAPSHOT_CONTENTS, name="volumesnapshotclasses", kind="VolumeSnapshotClass")
_DRIVERS = replace(STORAGE_CLASSES, name="csidrivers", kind="CSIDriver", short_names=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """The drivers of the cluster, those that volumes use, and the classes.

    Attributes:
        classes: None where the cluster does not serve snapshots.
    """

    drivers: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    classes: list[JSONObject] | None = None


async def read_snapshots(client: KubeClient) -> SnapshotFacts:
    """Read drivers, volumes and classes. Raises KubeError."""
    drivers = [str(obj["metadata"]["name"]) for obj in await client.list_all(_DRIVERS)]
    volumes = await client.list_all(PERSISTENT_VOLUMES)
    used = {str(mapping(mapping(volume, "spec"), "csi").get("driver") or "") for volume in volumes} - {""}
    try:
        classes: list[JSONObject] | None = await client.list_all(_CLASSES)
    except NotFound:
        classes = None
    return SnapshotFacts(drivers=sorted({*drivers, *used}), used=used, classes=classes)


def judge(facts: SnapshotFacts) -> list[Finding]:
    """A finding for each driver: its class, or why a backup would choose none."""
    if not facts.drivers:
        return [skipped(CHECK, "the cluster has no CSI driver")]
    if facts.classes is None:
        text = f"the cluster does not serve CSI snapshots; its drivers are {listed(facts.drivers)}"
        remedy = "install the snapshot controller and its definitions, or save volumes with the node agent"
        code = Code.SNAPSHOTS_NOT_SERVED
        judged = warning if facts.used else skipped
        return [judged(CHECK, text, remedy, code=code)]
    return [_of_driver(driver, facts) for driver in facts.drivers]


def _of_driver(driver: str, facts: SnapshotFacts) -> Finding:
    try:
        chosen = choose_class(facts.classes or [], driver)
    except CSIError as error:
        text = f"volumes of driver {driver} cannot be snapshotted: {error}"
        remedy = "make the VolumeSnapshotClass, or save these volumes with the node agent"
        judged = problem if driver in facts.used else skipped
        return judged(CHECK, text, remedy, code=Code.SNAPSHOT_CLASS)
    return ok(CHECK, f"driver {driver} has the class {chosen.name}")

"""Volume data that cannot be restored: an error for each volume, and no pod starts without it."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta, ObjectReference
from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from pinnace.api.velero.restore import RestoreUploader
from pinnace.api.volume_info import BackupVolumeInfo, CSISnapshotInfo, PodVolumeInfo
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes
from pinnace.csi.restore import ProvisionClaim
from pinnace.kube.client import KubeClient
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.request import RestoreSettings
from tests.support.cluster.snapshot_crds import kinds
from tests.unit.restore import world
from tests.unit.restore.moved import OPERATION, UPLOAD, moving, moving_into, stored_uploads
from tests.unit.restore.world import Harness, claim, obj, pod, volume

UNBOUND = {"matchLabels": {labels.AWAITS_VOLUME_DATA: "true"}}


class Filler:
    def __init__(self) -> None:
        self.asked: list[dict[str, SavedSnapshot]] = []

    async def restore_pod_volumes(
        self, pod: JSONObject, original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        self.asked.append(dict(snapshots))
        return []


def saved(
    volume: str = "data", uploader: str = "other", snapshot: str = "abc", **notes: str
) -> PodVolumeBackup:
    return PodVolumeBackup(
        metadata=ObjectMeta(annotations=notes),
        spec=PodVolumeBackupSpec(
            pod=ObjectReference(namespace="ns-1", name="db"),
            volume=volume,
            uploader_type=uploader,
            repo_identifier="" if uploader == "kopia" else "s3:x/ns-1",
        ),
        status=PodVolumeBackupStatus(snapshot_id=snapshot),
    )


def db(*claims: str) -> JSONObject:
    volumes: list[JSONObject] = [
        {"name": f"of-{name}", "persistentVolumeClaim": {"claimName": name}} for name in claims
    ]
    return pod("db", spec={"volumes": [*volumes, {"name": "data", "emptyDir": {}}]})


def bound(name: str = "data") -> JSONObject:
    notes = {"pv.kubernetes.io/bind-completed": "yes"}
    return claim(name, annotations=notes, spec={"volumeName": f"pv-{name}"})


def volume_of(name: str = "data") -> JSONObject:
    return volume(f"pv-{name}", policy="Retain", spec={"claimRef": {"namespace": "ns-1", "name": name}})


def moved(name: str = "data") -> BackupVolumeInfo:
    return BackupVolumeInfo(
        pvc_namespace="ns-1", pvc_name=name, backup_method="CSISnapshot", snapshot_data_moved=True
    )


UPLOAD_FILE = {"resources/datauploads.velero.io/namespaces/velero/b-x.json": orjson.dumps(UPLOAD)}


@pytest.mark.spec("BEY-074")
@pytest.mark.parametrize(
    ("fields", "files"),
    [
        ({"volume_infos": [moved()]}, {}),
        ({"item_operations": [OPERATION]}, {}),
        ({}, UPLOAD_FILE),
    ],
    ids=["volume info", "item operation", "DataUpload"],
)
async def test_a_claim_with_moved_data_is_an_error_and_stays_unbound(
    harness: Harness, fields: JSONObject, files: dict[str, bytes]
) -> None:
    harness.request_fields = fields

    results = await harness.restore(volume_of(), bound(), db("data"), claim("other"), files=files)

    (error,) = results.errors.namespaces["ns-1"]
    assert error.startswith(
        "error restoring persistentvolumeclaims/ns-1/data: the data of its volume is not restored: it was"
    )
    assert "restore it with Velero" in error
    made = harness.world.item("persistentvolumeclaims", "ns-1", "data")
    assert made["spec"] == {"selector": UNBOUND}
    assert "pv.kubernetes.io/bind-completed" not in made["metadata"].get("annotations", {})
    assert harness.world.created_of("persistentvolumes") == []
    assert harness.world.created_of("pods") == []
    told = [
        text for text in results.warnings.namespaces["ns-1"] if text.startswith("pods/ns-1/db is left out")
    ]
    assert told == ["pods/ns-1/db is left out: the data of its claims data was not restored"]
    assert "selector" not in harness.world.item("persistentvolumeclaims", "ns-1", "other")["spec"]


async def test_moved_data_that_needs_node_agents_is_an_error_that_names_its_snapshot(
    harness: Harness,
) -> None:
    upload = {
        **UPLOAD,
        "apiVersion": "velero.io/v2alpha1",
        "metadata": {"name": "b-x", "namespace": "velero"},
        "status": {"phase": "Completed", "snapshotID": "k1"},
    }
    made = [{"Group": "velero.io", "Resource": "datauploads", "Namespace": "velero", "Name": "b-x"}]
    operation = {"spec": {**OPERATION["spec"], "postOperationItems": made}}
    harness.request_fields = {"item_operations": [operation]}
    file = next(iter(UPLOAD_FILE))

    results = await harness.restore(bound(), db("data"), files={file: orjson.dumps(upload)})

    (error,) = results.errors.namespaces["ns-1"]
    assert "(snapshot k1), from where node agents of a server restore it" in error
    assert harness.world.item("persistentvolumeclaims", "ns-1", "data")["spec"] == {"selector": UNBOUND}
    assert harness.world.created_of("pods") == []


@pytest.mark.spec("AFT-116")
@pytest.mark.parametrize(("former", "mapping"), [("x", {}), ("kube-system", {}), ("x", {"x": "mapped"})])
async def test_moved_data_comes_back_whatever_namespace_its_server_had(
    harness: Harness, former: str, mapping: dict[str, str]
) -> None:
    """The DataDownload is the server's own. No object is made where the archive has the DataUpload."""
    moving_into(harness, {"item_operations": [moving(f"{former}/b-x")]})

    results = await harness.restore(
        bound(), db("data"), files=stored_uploads(f"{former}/b-x"), namespace_mapping=mapping
    )

    assert results.empty, results
    namespaces = {each[1] for each in harness.world.created if each[1]}
    assert namespaces == {"ns-1", "velero"}
    [name] = harness.world.created_of("datadownloads.velero.io")
    download = harness.world.item("datadownloads.velero.io", *name.split("/"))["spec"]
    assert (download["snapshotID"], download["sourceNamespace"]) == ("k1", "ns-1")
    assert (download["targetVolume"]["namespace"], download["targetVolume"]["pvc"]) == ("ns-1", "data")
    assert harness.world.created_of("datauploads.velero.io") == []


@pytest.mark.spec("AFT-116")
async def test_an_upload_of_another_namespace_s_claim_fills_none(harness: Harness) -> None:
    """A forged archive would read the data of any namespace in the repositories of its location."""
    moving_into(harness, {"item_operations": [moving("x/b-x")]})

    results = await harness.restore(bound(), files=stored_uploads("x/b-x", sourceNamespace="secret"))

    [error] = results.errors.namespaces["ns-1"]
    assert "its DataUpload is of another claim, secret/data" in error
    assert harness.world.created_of("datadownloads.velero.io") == []


async def test_a_claim_without_its_data_names_no_volume_or_snapshot_of_the_old_cluster(
    harness: Harness,
) -> None:
    """Its volume is not in the backup: nothing else would remove the name."""
    source = {"kind": "VolumeSnapshot", "name": "old"}
    spec = {"volumeName": "pv-data", "dataSource": source, "dataSourceRef": source}
    harness.request_fields = {"volume_infos": [moved()]}

    old = claim("data", spec=spec)
    notes = {"velero.io/data-upload-name": "velero/b-x", "velero.io/volume-snapshot-name": "old"}
    old["metadata"]["annotations"] = {"who": "me", **notes}

    results = await harness.restore(old)

    assert results.errors.count == 1
    made = harness.world.item("persistentvolumeclaims", "ns-1", "data")
    assert made["spec"] == {"selector": UNBOUND}
    assert made["metadata"]["annotations"] == {"who": "me"}


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("own", [{}, {"disk": "fast"}])
async def test_a_claim_does_not_wait_for_the_volume_of_an_earlier_restore_of_moved_data(
    harness: Harness, own: dict[str, str], exists: bool
) -> None:
    """Once bound, it keeps the selector, with which no driver makes a volume for it."""
    old = claim("data", spec={"selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x", **own}}})
    if exists:
        harness.world.put(obj("Namespace", "ns-1"))
        harness.world.put(copy.deepcopy(old))

    results = await harness.restore(old)

    assert (results.errors.count, results.warnings.count) == (0, 0)
    if not exists:
        made = harness.world.item("persistentvolumeclaims", "ns-1", "data")
        assert made["spec"].get("selector") == ({"matchLabels": own} if own else None)


@pytest.mark.spec("KOP-009")
async def test_a_pod_volume_of_another_uploader_is_an_error_and_its_pod_is_left_out(harness: Harness) -> None:
    filler = Filler()
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=filler)
    harness.request_fields = {"pod_volume_backups": [saved(), saved("logs", uploader="restic")]}

    results = await harness.restore(db(), pod("web"))

    (error,) = results.errors.namespaces["ns-1"]
    assert error.startswith(
        "error restoring pods/ns-1/db: the data of volume data is not restored: it was saved"
    )
    assert "with other (snapshot abc)" in error
    assert harness.world.created_of("pods") == ["ns-1/web"]
    assert filler.asked == []


@pytest.mark.spec("AFT-174")
async def test_a_pod_volume_comes_back_though_its_claim_and_its_volume_are_left_out(harness: Harness) -> None:
    filler = Filler()
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=filler)
    harness.request_fields = {"pod_volume_backups": [saved("of-data", uploader="kopia")]}

    results = await harness.restore(
        volume_of(),
        bound(),
        db("data"),
        excluded_resources=["persistentvolumeclaims", "persistentvolumes"],
    )

    assert results.errors.count == 0
    assert [(volume, each.id) for asked in filler.asked for volume, each in asked.items()] == [
        ("of-data", "abc")
    ]
    for kind in ("persistentvolumeclaims", "persistentvolumes"):
        assert harness.world.created_of(kind) == []


@pytest.mark.parametrize(
    ("phase", "message", "reason"),
    [
        ("Failed", "no such host", "Failed: no such host"),
        ("Canceled", "", "Canceled"),
        ("", "", "New"),
        ("Completed", "volume was empty so no snapshot was taken", None),
    ],
)
@pytest.mark.parametrize("accepted", [False, True], ids=["error", "accepted"])
async def test_a_volume_that_was_not_saved_is_an_error_of_its_pod_which_is_created(
    harness: Harness, phase: str, message: str, reason: str | None, accepted: bool
) -> None:
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=Filler())
    unsaved = saved(uploader="kopia", snapshot="")
    unsaved.status.phase, unsaved.status.message = phase, message
    harness.request_fields = {"pod_volume_backups": [unsaved, saved("logs", uploader="kopia")]}

    harness.annotations = {labels.WITHOUT_VOLUME_DATA: "true"} if accepted else {}
    results = await harness.restore(db())

    told = (
        "the data of volume data of pods/ns-1/db is not restored: it was not saved, its PodVolumeBackup is "
    )
    expected = {"ns-1": [told + reason]} if reason is not None else {}
    where, other = (results.warnings, results.errors) if accepted else (results.errors, results.warnings)
    assert where.namespaces == expected
    assert other.count == 0
    assert harness.world.created_of("pods") == ["ns-1/db"]

    again = await harness.restore(db())
    assert "it was not saved" not in f"{again.warnings}{again.errors}"


async def test_settings_of_the_uploader_are_one_warning_where_restic_saved_volumes(harness: Harness) -> None:
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=Filler())
    harness.request_fields = {
        "pod_volume_backups": [saved(uploader="kopia"), saved("logs", uploader="restic")]
    }
    config = RestoreUploader(write_sparse_files=True)

    results = await harness.restore(db(), pod("web"), uploader_config=config)

    (warning,) = results.warnings.namespaces["ns-1"]
    assert warning.startswith("spec.uploaderConfig has no effect on the volumes that restic saved, those of")
    assert sorted(harness.world.created_of("pods")) == ["ns-1/db", "ns-1/web"]


@pytest.mark.parametrize("annotated", [True, False], ids=["named by annotation", "known from the pod"])
async def test_the_claim_behind_a_pod_volume_that_is_not_restored_is_reported_once(
    harness: Harness, annotated: bool
) -> None:
    notes = {labels.PVC_NAME: "data"} if annotated else {}
    harness.request_fields = {"pod_volume_backups": [saved("of-data", **notes)]}

    results = await harness.restore(volume_of(), bound(), db("data"))

    (error,) = results.errors.namespaces["ns-1"]
    assert error.startswith("error restoring persistentvolumeclaims/ns-1/data: ")
    assert harness.world.created_of("pods") == []


async def test_without_node_agents_restic_data_is_an_error_too(harness: Harness) -> None:
    harness.request_fields = {"pod_volume_backups": [saved(uploader="")]}

    results = await harness.restore(db())

    (error,) = results.errors.namespaces["ns-1"]
    assert "it was saved with restic (snapshot abc), which the node agents of a server restore" in error
    assert harness.world.created_of("pods") == []


async def test_if_the_user_accepts_it_volumes_come_back_empty_with_a_warning_for_each(
    harness: Harness,
) -> None:
    harness.annotations = {labels.WITHOUT_VOLUME_DATA: "true"}
    harness.request_fields = {"pod_volume_backups": [saved()], "volume_infos": [moved()]}

    results = await harness.restore(volume_of(), bound(), db("data"))

    assert results.errors.count == 0
    of_claim, of_pod = sorted(results.warnings.namespaces["ns-1"])
    assert of_claim.startswith("persistentvolumeclaims/ns-1/data comes back empty: ")
    assert of_pod.startswith("volume data of pods/ns-1/db comes back empty: it was saved with other")
    assert harness.world.item("persistentvolumeclaims", "ns-1", "data")["spec"] == {}
    assert harness.world.created_of("pods") == ["ns-1/db"]


async def test_existing_claims_and_pods_are_left_alone(harness: Harness) -> None:
    harness.request_fields = {"pod_volume_backups": [saved()], "volume_infos": [moved()]}
    harness.world.put(bound())
    harness.world.put(db("data"))

    results = await harness.restore(bound(), db("data"))

    assert results.errors.count == 0


@pytest.mark.found("S1")
@pytest.mark.parametrize(
    ("fields", "files"),
    [
        ({"volume_infos": [moved()]}, {}),
        ({"item_operations": [OPERATION]}, {}),
        ({}, UPLOAD_FILE),
        (
            {
                "volume_infos": [
                    BackupVolumeInfo(pvc_namespace="ns-1", pvc_name="data", backup_method="CSISnapshot")
                ]
            },
            {},
        ),
    ],
    ids=["moved, by its record", "moved, by its operation", "moved, by its DataUpload", "CSI snapshot"],
)
@pytest.mark.parametrize("spec", [{}, {"namespace_mapping": {"ns-1": "copy"}}], ids=["in place", "mapped"])
@pytest.mark.parametrize("without", ["nothing", "the volume"])
async def test_a_restore_without_volumes_brings_no_old_volume_back(
    harness: Harness, fields: JSONObject, files: dict[str, bytes], spec: JSONObject, without: str
) -> None:
    harness.request_fields = fields
    old = bound()
    old["spec"]["dataSource"] = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"}
    volumes = [volume_of()] if without == "nothing" else []

    results = await harness.restore(old, *volumes, restore_pvs=False, files=files, **spec)

    assert results.errors.count == 0
    assert harness.world.created_of("persistentvolumes") == []
    namespace = "copy" if spec else "ns-1"
    made = harness.world.item("persistentvolumeclaims", namespace, "data")["spec"]
    assert made.keys().isdisjoint({"volumeName", "dataSource", "selector"})


async def test_the_upload_of_another_backup_says_nothing_about_a_claim(harness: Harness) -> None:
    """A backup of the server's namespace holds the DataUploads of others."""
    stored = {**UPLOAD, "metadata": {"labels": {labels.BACKUP_NAME: "another"}}}

    results = await harness.restore(bound(), files={next(iter(UPLOAD_FILE)): orjson.dumps(stored)})

    assert results.errors.count == 0
    assert harness.world.item("persistentvolumeclaims", "ns-1", "data")["spec"]["volumeName"] == "pv-data"


def csi_info(handle: str = "snap-1") -> BackupVolumeInfo:
    return BackupVolumeInfo(
        pvc_namespace="ns-1",
        pvc_name="data",
        backup_method="CSISnapshot",
        csi_snapshot_info=CSISnapshotInfo(snapshot_handle=handle, driver="d"),
    )


@pytest.mark.parametrize(
    ("features", "text"),
    [
        (set(), "volumes are restored from CSI snapshots with the feature EnableCSI only"),
        ({"EnableCSI"}, "it is in the CSI snapshot snap-1, and the backup has no VolumeSnapshot"),
    ],
    ids=["feature off", "no VolumeSnapshot in the backup"],
)
async def test_a_csi_snapshot_that_cannot_be_used_is_an_error(
    harness: Harness, features: set[str], text: str
) -> None:
    harness.options = RestoreSettings(features=features)
    harness.request_fields = {"volume_infos": [csi_info()]}

    results = await harness.restore(volume_of(), bound())

    (error,) = results.errors.namespaces["ns-1"]
    assert text in error
    assert harness.world.item("persistentvolumeclaims", "ns-1", "data")["spec"]["selector"] == UNBOUND


@pytest.mark.found("E-F7")
async def test_a_cluster_without_snapshots_is_the_reason_where_the_feature_is_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = [each for each in world.SERVED if each[0] != "snapshot.storage.k8s.io"]
    monkeypatch.setattr(world, "SERVED", served)
    harness.discovery = world.discovery()
    harness.options = RestoreSettings(features={"EnableCSI"})
    harness.request_fields = {"volume_infos": [csi_info()]}

    results = await harness.restore(volume_of(), bound(), obj("Secret", "s", "ns-1"))

    (error,) = results.errors.namespaces["ns-1"]
    assert "this cluster does not serve volumesnapshots.snapshot.storage.k8s.io" in error
    assert harness.world.created_of("secrets") == ["ns-1/s"]


async def test_a_malformed_data_upload_does_not_end_the_restore(harness: Harness) -> None:
    path = "resources/datauploads.velero.io/namespaces/velero/"
    files = {f"{path}a.json": b"no json", f"{path}b.json": b"[]", f"{path}c.json": b'{"spec": 3}'}

    results = await harness.restore(claim("data"), obj("Secret", "s", "ns-1"), files=files)

    assert results.errors.count == 0


def test_the_uploader_comes_from_the_location_where_the_object_does_not_name_it() -> None:
    live = [saved("a", "", "s1"), saved("b", "", "s2"), saved("c", "", "s3"), saved("d", "restic", "s1")]
    infos = [BackupVolumeInfo(pvb_info=PodVolumeInfo(snapshot_handle="s1", uploader_type="kopia"))]
    stored: list[JSONObject] = [
        {"spec": {"uploaderType": "other"}, "status": {"snapshotID": "s2"}},
        {"spec": 3, "status": None},
    ]

    found = list(pod_volumes(map(encode, live), infos, stored))

    assert [each.uploader for each in found] == ["kopia", "other", "restic", "restic"]
    known = SavedPodVolumes(found).snapshots(pod("db"), "ns-1")
    assert {volume: (each.id, each.uploader) for volume, each in known.items()} == {
        "a": ("s1", "kopia"),
        "c": ("s3", "restic"),
        "d": ("s1", "restic"),
    }


@pytest.mark.spec("AFT-176")
@pytest.mark.parametrize(
    ("fields", "uploader"),
    [
        pytest.param({"repoIdentifier": "s3:x/ns-1"}, "restic", id="before-1.10"),
        pytest.param({"repoIdentifier": ""}, "kopia", id="dropped-by-the-cluster"),
        pytest.param({"uploaderType": "", "repoIdentifier": ""}, "kopia", id="after-1.18"),
        pytest.param({"uploaderType": "kopia", "repoIdentifier": "s3:x/ns-1"}, "kopia", id="named"),
        pytest.param({"uploaderType": "restic"}, "restic", id="named-restic"),
        pytest.param({"uploaderType": 3, "repoIdentifier": ["s3:"]}, "kopia", id="hostile"),
    ],
)
def test_data_without_an_uploader_is_restics_where_it_names_a_repository(
    fields: JSONObject, uploader: str
) -> None:
    obj = {"spec": {"pod": {"namespace": "ns-1", "name": "db"}, **fields}, "status": {"snapshotID": "s1"}}

    (found,) = pod_volumes([obj])

    assert found.uploader == uploader


@pytest.mark.spec("BEY-076")
async def test_volumes_saved_from_pods_come_back_alike_with_and_without_volume_infos(tmp_path: Path) -> None:
    handle = PodVolumeInfo(snapshot_handle="abc", uploader_type="kopia", volume_name="of-data", pod_name="db")
    info = BackupVolumeInfo(
        pvc_namespace="ns-1",
        pvc_name="data",
        pv_name="pv-data",
        backup_method="PodVolumeBackup",
        pvb_info=handle,
    )
    record = saved("of-data", uploader="kopia", **{labels.PVC_NAME: "data"})
    results = []
    for infos in ((), (info,)):
        (tmp_path / str(len(infos))).mkdir()
        harness, filler = Harness(tmp_path / str(len(infos))), Filler()
        harness.request_fields = {"pod_volume_backups": [record], "volume_infos": infos}
        harness.collaborators = RestoreCollaborators(pod_volume_restorer=filler)
        outcome = await harness.restore(db("data"), bound(), volume_of())
        claim_now = harness.world.item("persistentvolumeclaims", "ns-1", "data")
        volumes = harness.world.created_of("persistentvolumes")
        results.append((outcome.empty, claim_now["spec"], volumes, filler.asked))

    assert results[0] == results[1]
    assert results[0][3] == [{"of-data": SavedSnapshot("abc", uploader="kopia")}]


STALE = {labels.BACKUP_NAME: "earlier", labels.VOLUME_SNAPSHOT_NAME: "velero-data-686b5"}
MADE_OF = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "older"}


def stale_claim(marks: JSONObject, notes: JSONObject) -> JSONObject:
    """As an earlier restore leaves it."""
    spec = {"volumeName": "pv-data", "dataSource": MADE_OF, "dataSourceRef": MADE_OF}
    return claim("data", labels={"app": "db", **marks}, annotations={"mine": "kept", **notes}, spec=spec)


@pytest.mark.found("V20")
@pytest.mark.parametrize(
    ("marks", "notes"),
    [
        (STALE, {}),
        ({}, STALE),
        (STALE, STALE),
        ({**STALE, labels.BACKUP_NAME: "backup-1"}, {}),
        ({}, {labels.VOLUME_SNAPSHOT_NAME: "velero-data-686b5"}),
        ({}, {}),
    ],
    ids=["labels", "annotations", "both", "a backup of the same name", "no backup's name", "source only"],
)
async def test_the_data_of_a_pod_volume_comes_back_whatever_an_earlier_restore_left_on_its_claim(
    harness: Harness, marks: JSONObject, notes: JSONObject
) -> None:
    harness.options = RestoreSettings(features={"EnableCSI"})
    harness.actions = [ProvisionClaim(cast(KubeClient, harness.world), kinds())]
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=Filler())
    data = saved("of-data", "kopia", **{labels.PVC_NAME: "data"})
    harness.request_fields = {"pod_volume_backups": [data]}

    results = await harness.restore(volume_of(), stale_claim(marks, notes), db("data"))

    assert results.errors.count == 0, results.errors.namespaces
    made = harness.world.item("persistentvolumeclaims", "ns-1", "data")
    assert made["spec"].keys().isdisjoint({"volumeName", "dataSource", "dataSourceRef"})
    assert labels.VOLUME_SNAPSHOT_NAME not in made["metadata"]["labels"]
    assert made["metadata"]["annotations"] == {"mine": "kept"}
    assert harness.world.created_of("pods") == ["ns-1/db"]


@pytest.mark.found("V20")
async def test_a_snapshot_that_comes_back_stays_the_source_of_its_claim(harness: Harness) -> None:
    users = obj("VolumeSnapshot", "older", "ns-1", api_version="snapshot.storage.k8s.io/v1")
    harness.request_fields = {"pod_volume_backups": [saved("of-data", "kopia", **{labels.PVC_NAME: "data"})]}
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=Filler())

    await harness.restore(users, stale_claim({}, {}), db("data"))

    made = harness.world.item("persistentvolumeclaims", "ns-1", "data")
    assert made["spec"]["dataSource"] == MADE_OF


@pytest.mark.found("V20")
async def test_a_claim_that_exists_needs_no_snapshot(harness: Harness) -> None:
    """Once its data is moved, the VolumeSnapshot that its label names is gone."""
    harness.options = RestoreSettings(features={"EnableCSI"})
    harness.actions = [ProvisionClaim(cast(KubeClient, harness.world), kinds())]
    found = stale_claim({**STALE, labels.BACKUP_NAME: "backup-1"}, {})
    harness.world.put(obj("Namespace", "ns-1"))
    harness.world.put(copy.deepcopy(found))

    results = await harness.restore(found)

    assert results.errors.count == 0, results.errors.namespaces
    assert harness.world.created_of("persistentvolumeclaims") == []


@pytest.mark.found("V20")
async def test_a_claim_marked_for_a_snapshot_that_the_backup_lacks_is_an_error(harness: Harness) -> None:
    """An old backup without records of its volumes: nothing else says where the data is."""
    harness.options = RestoreSettings(features={"EnableCSI"})
    harness.actions = [ProvisionClaim(cast(KubeClient, harness.world), kinds())]

    results = await harness.restore(stale_claim({**STALE, labels.BACKUP_NAME: "backup-1"}, {}))

    (error,) = results.errors.namespaces["ns-1"]
    assert "the VolumeSnapshot ns-1/velero-data-686b5, which the claim is to be restored from" in error


@pytest.mark.found("V20")
@pytest.mark.parametrize(
    ("accepted", "told", "spec"),
    [
        (False, "stays unbound: an earlier restore could not", {"selector": UNBOUND}),
        (True, "comes back empty", {}),
    ],
    ids=["kept", "accepted"],
)
async def test_a_claim_that_was_waiting_for_its_data_when_it_was_saved_is_a_warning(
    harness: Harness, accepted: bool, told: str, spec: JSONObject
) -> None:
    if accepted:
        harness.annotations = {labels.WITHOUT_VOLUME_DATA: "true"}

    results = await harness.restore(claim("data", spec={"selector": copy.deepcopy(UNBOUND)}))

    (warning,) = results.warnings.namespaces["ns-1"]
    assert warning.startswith(f"persistentvolumeclaims/ns-1/data {told}")
    assert harness.world.item("persistentvolumeclaims", "ns-1", "data")["spec"] == spec

"""The table: each way of saving, by each writer, and its data."""

from tests.support.stores.golden import WITHOUT_DATA
from tests.unit.catalogue.ways import (
    DATA,
    LISTED,
    LOGS,
    SECRET,
    Way,
    by_csi,
    by_mover,
    by_pod,
    content,
    file_of,
    in_repository,
    mounting,
    native,
    record,
    saved,
    snapshot_files,
    upload,
    uploading,
)

TREE, RAW = ("drives", "tree"), ("drives", "raw")
NO_RECORD = (
    "it was moved into the backup location by a data mover, and the backup has no record of the operation"
    " that would tell where"
)


def without_agents(snapshot: str, uploader: str = "kopia") -> str:
    return (
        f"it was saved with {uploader} (snapshot {snapshot}), which the node agents of a server restore, and"
        " this restore is made without them"
    )


def foreign(snapshot: str, uploader: str = "other") -> str:
    return (
        f"it was saved with {uploader} (snapshot {snapshot}), and this version restores snapshots of restic"
        " and kopia only"
    )


def far(snapshot: str) -> str:
    return (
        f"it was moved into the backup location (snapshot {snapshot}), from where node agents of a server"
        " restore it, and this restore is made without them"
    )


def not_moved(reason: str) -> str:
    return f"it was to be moved into the backup location, but {reason}"


def without_feature(handle: str = "") -> str:
    snapshot = f"the CSI snapshot {handle}" if handle else "a CSI snapshot"
    return f"it is in {snapshot}, and volumes are restored from CSI snapshots with the feature EnableCSI only"


def no_object(handle: str) -> str:
    return f"it is in the CSI snapshot {handle}, and the backup has no VolumeSnapshot"


BY_REAL_SERVERS = [
    Way(
        title="Velero 1.6: restic",
        archive="1.6.3",
        backup="files",
        repository=in_repository("edae6d38", uploader="restic", namespace="files"),
        pods={"keeper": {"data": ("restic", "edae6d38", 3000091)}},
    ),
    Way(
        title="Velero 1.6: restic, a volume that was not saved",
        archive="1.6.3",
        backup="everything",
        repository=in_repository("efbf7337", uploader="restic", namespace="files"),
        pods={"keeper": {"data": ("restic", "efbf7337", 3000091)}},
    ),
    Way(
        title="Velero 1.16: kopia",
        archive="1.16.2",
        backup="files",
        repository=in_repository("b0a1e521b631435bcfa1c614dd259b9d", namespace="files"),
        pods={"keeper": {"data": ("kopia", "b0a1e521b631435bcfa1c614dd259b9d", 3000100)}},
    ),
    Way(title="Velero 1.18: skipped", archive="1.18.0", backup="everything"),
    Way(
        title="Velero 1.18: kopia",
        archive=f"1.18.1{WITHOUT_DATA}",
        backup="pods-first",
        repository=in_repository("74c11364fd30f4491bfd907621bae8fb", namespace="files"),
        pods={"keeper": {"data": ("kopia", "74c11364fd30f4491bfd907621bae8fb", 3845829)}},
    ),
    Way(
        title="Velero 1.18: CSI snapshots",
        archive=f"1.18.1{WITHOUT_DATA}",
        backup="snapshots",
        csi=frozenset(
            ("disks.lab.example.com", handle, None)
            for handle in (
                "snapshot-aa574011-b574-4998-9761-ff4f01d7976d",
                "snapshot-3a835a59-90a2-4230-98d8-b69ec8894dea",
            )
        ),
        lost_without={
            RAW: without_feature("snapshot-aa574011-b574-4998-9761-ff4f01d7976d"),
            TREE: without_feature("snapshot-3a835a59-90a2-4230-98d8-b69ec8894dea"),
        },
        snapshotted=frozenset({TREE, RAW}),
    ),
    Way(
        title="Velero 1.18: moved",
        archive=f"1.18.1{WITHOUT_DATA}",
        backup="moved",
        repository=in_repository(
            "0e3058b400afd2baf1b3ddb6204a094c", "42580e458ce4ac540bf540ce44b7a9d8", namespace="drives"
        ),
        lost_without={
            TREE: far("0e3058b400afd2baf1b3ddb6204a094c"),
            RAW: far("42580e458ce4ac540bf540ce44b7a9d8"),
        },
        moved={TREE: "0e3058b400afd2baf1b3ddb6204a094c", RAW: "42580e458ce4ac540bf540ce44b7a9d8"},
        snapshotted=frozenset({TREE, RAW}),
    ),
    Way(
        title="Velero main: kopia beside a skipped device",
        archive=f"main-pod-volumes{WITHOUT_DATA}",
        backup="both",
        repository=in_repository("c11b9078dd86e5ea9635baa4a03b562b", namespace="files")
        | in_repository("010666ac3c33351188f9131c6bc5c910", namespace="disks"),
        lost_without={("disks", "tree"): without_agents("010666ac3c33351188f9131c6bc5c910")},
        pods={
            "keeper": {"data": ("kopia", "c11b9078dd86e5ea9635baa4a03b562b", 3845841)},
            "user": {"tree": ("kopia", "010666ac3c33351188f9131c6bc5c910", 3445843)},
        },
    ),
    Way(
        title="Velero main: moved by velero-fs",
        archive="main-csi",
        backup="moved",
        repository=in_repository(
            "a9a2eb60f7e31f52cd131dad178f3fb1", "aec4dc23b476195d2dd2e8b09dfce848", namespace="drives"
        ),
        lost_without={
            TREE: far("a9a2eb60f7e31f52cd131dad178f3fb1"),
            RAW: far("aec4dc23b476195d2dd2e8b09dfce848"),
        },
        moved={TREE: "a9a2eb60f7e31f52cd131dad178f3fb1", RAW: "aec4dc23b476195d2dd2e8b09dfce848"},
        snapshotted=frozenset({TREE, RAW}),
    ),
    Way(
        title="Velero main: moved by velero-block",
        archive=f"main-block{WITHOUT_DATA}",
        backup="block-changed",
        repository=in_repository(
            "18e3beafeb4d2fc8009bd5b67a610166", "f326a1bb86dd336f9ee4794636dbf17d", namespace="blocks"
        ),
        lost_without={
            ("blocks", "tree"): far("18e3beafeb4d2fc8009bd5b67a610166"),
            ("blocks", "raw"): far("f326a1bb86dd336f9ee4794636dbf17d"),
        },
        moved={
            ("blocks", "tree"): "18e3beafeb4d2fc8009bd5b67a610166",
            ("blocks", "raw"): "f326a1bb86dd336f9ee4794636dbf17d",
        },
        snapshotted=frozenset({("blocks", "tree"), ("blocks", "raw")}),
    ),
    Way(title="Pinnace without an index: nothing", archive="pinnace-without-index", backup="from-schedule"),
    Way(title="Pinnace: skipped", archive="pinnace-index-2", backup="from-schedule"),
]

POD_VOLUMES = [
    Way(
        title="the uploader in the records of volumes only",
        files={
            "pod_volume_backups": [saved("data", "k1")],
            "volume_infos": [by_pod("data", "k1", "kopia")],
        },
        items=[mounting("data")],
        live={"podvolumebackups": [saved("data", "k1")]},
        repository=in_repository("k1"),
        lost_without={DATA: without_agents("k1")},
        pods={"data": {"data": ("kopia", "k1", 5)}},
    ),
    Way(
        title="the uploader in the stored object only",
        files={
            "pod_volume_backups": [saved("data", "k1", "kopia")],
            "volume_infos": [by_pod("data", "k1", "")],
        },
        items=[mounting("data")],
        live={"podvolumebackups": [saved("data", "k1")]},
        repository=in_repository("k1"),
        lost_without={DATA: without_agents("k1")},
        pods={"data": {"data": ("kopia", "k1", 5)}},
    ),
    Way(
        title="both uploaders, and a snapshot of which only the cluster knows",
        files={"pod_volume_backups": [saved("data", "k1", "kopia"), saved("logs", "r1", "restic")]},
        items=[mounting("data"), mounting("logs")],
        live={"podvolumebackups": [saved("data", "k1"), saved("logs", "r1"), saved("late", "k2", "kopia")]},
        repository=in_repository("k1") | in_repository("r1", uploader="restic"),
        only_live=in_repository("k2"),
        lost_without={DATA: without_agents("k1"), LOGS: without_agents("r1", "restic")},
        pods={"data": {"data": ("kopia", "k1", 5)}, "logs": {"data": ("restic", "r1", 5)}},
    ),
    Way(
        title="another uploader",
        files={"pod_volume_backups": [saved("data", "x1", "other")]},
        items=[mounting("data")],
        left=("other snapshot x1 of volume data of pod shop/data",),
        lost={DATA: foreign("x1")},
        lost_without={DATA: foreign("x1")},
    ),
    Way(
        title="volumes that were empty, failed, or failed late",
        files={
            "pod_volume_backups": [
                saved("data"),
                saved("logs", phase="Failed"),
                saved("late", "k1", "kopia", phase="Failed"),
            ]
        },
        items=[mounting("data"), mounting("logs"), mounting("late")],
        repository=in_repository("k1"),
        lost_without={("shop", "late"): without_agents("k1")},
        pods={"late": {"data": ("kopia", "k1", 5)}},
    ),
    Way(
        title="in the records of volumes only, by an uploader of ours and by another",
        files={"volume_infos": [by_pod("data", "k1", "kopia"), by_pod("logs", "x1", "other")]},
        items=[mounting("data"), mounting("logs")],
        repository=in_repository("k1"),
        left=("other snapshot x1 of volume data of pod shop/logs",),
        lost={LOGS: foreign("x1")},
        lost_without={DATA: without_agents("k1"), LOGS: foreign("x1")},
    ),
    Way(
        title="snapshots of one id in two repositories",
        files={
            "pod_volume_backups": [
                saved("data", "k1", "kopia"),
                saved("data", "k1", "kopia", namespace="forum"),
                saved("logs", "k1", "restic"),
            ]
        },
        repository=in_repository("k1")
        | in_repository("k1", namespace="forum")
        | in_repository("k1", uploader="restic"),
        lost_without={
            DATA: without_agents("k1"),
            ("forum", "data"): without_agents("k1"),
            LOGS: without_agents("k1", "restic"),
        },
    ),
    Way(
        title="annotations of pods, by Velero before 1.2",
        items=[mounting("data", **{"snapshot.velero.io/data": "r1"})],
        pods={"data": {"data": ("restic", "r1", 0)}},
    ),
]

SNAPSHOTS = [
    Way(
        title="native snapshots, one of which was not made",
        files={"snapshots": [native("snap-1"), native("", "pv-logs")]},
        native=frozenset({"snap-1"}),
    ),
    Way(
        title="CSI snapshots by their contents, and again in the records and the tarball",
        files={
            "csi_volume_snapshot_contents": [content("data", "h1")],
            "volume_infos": [by_csi("data", "h1")],
            "resource_list": LISTED,
        },
        items=[mounting("data")],
        raw=snapshot_files("data", "h1"),
        csi=frozenset({("d", "h1", SECRET)}),
        lost_without={DATA: without_feature("h1")},
        snapshotted=frozenset({DATA}),
    ),
    Way(
        title="CSI snapshots in the tarball only, and those of a user",
        files={"resource_list": LISTED},
        raw={**snapshot_files("data", "h1"), **snapshot_files("logs", "h2", of="another")},
        csi=frozenset({("d", "h1", SECRET)}),
        lost_without={DATA: without_feature()},
        snapshotted=frozenset({DATA}),
    ),
    Way(
        title="CSI snapshots in the records only",
        files={"volume_infos": [by_csi("data", "h1"), by_csi("logs", "unknown", "unknown")]},
        csi=frozenset({("d", "h1", None)}),
        lost={DATA: no_object("h1"), LOGS: no_object("unknown")},
        lost_without={DATA: without_feature("h1"), LOGS: without_feature("unknown")},
        snapshotted=frozenset({DATA, LOGS}),
    ),
]

MOVED = [
    Way(
        title="moved, and moved by velero-fs",
        files={
            "volume_infos": [by_mover("data"), by_mover("logs")],
            "item_operations": [uploading("data"), uploading("logs")],
        },
        raw=file_of(upload("data", "k1"), upload("logs", "k2", mover="velero-fs")),
        live={
            "datauploads": [upload("data", "k1"), upload("late", "k3"), upload("else", "k4", mover="acme")]
        },
        repository=in_repository("k1", "k2"),
        only_live=in_repository("k3"),
        lost_without={DATA: far("k1"), LOGS: far("k2")},
        moved={DATA: "k1", LOGS: "k2"},
        snapshotted=frozenset({DATA, LOGS}),
    ),
    Way(
        title="images of devices, also those that are only in the cluster",
        files={"item_operations": [uploading("data")]},
        raw=file_of(upload("data", "k1", mover="velero-block")),
        live={"datauploads": [upload("late", "k3", mover="velero-block")]},
        repository=in_repository("k1"),
        only_live=in_repository("k3"),
        lost_without={DATA: far("k1")},
        moved={DATA: "k1"},
        snapshotted=frozenset({DATA}),
    ),
    Way(
        title="moved by somebody else's data mover",
        files={"item_operations": [uploading("data")], "volume_infos": [by_mover("data")]},
        raw=file_of(upload("data", "k1", mover="acme")),
        left=("moved data of claim shop/data",),
        lost={DATA: not_moved("it was moved by the data mover acme, which is not the built-in one")},
        lost_without={DATA: not_moved("it was moved by the data mover acme, which is not the built-in one")},
        snapshotted=frozenset({DATA}),
    ),
    Way(
        title="moved, with a record and without an operation",
        files={"volume_infos": [by_mover("data")]},
        left=("moved data of claim shop/data",),
        lost={DATA: NO_RECORD},
        lost_without={DATA: NO_RECORD},
        snapshotted=frozenset({DATA}),
    ),
    Way(
        title="moved, without the DataUpload",
        files={"item_operations": [uploading("data")]},
        left=("moved data of claim shop/data",),
        lost={DATA: not_moved("its DataUpload is not in the backup")},
        lost_without={DATA: not_moved("its DataUpload is not in the backup")},
        snapshotted=frozenset({DATA}),
    ),
    Way(
        title="moved, and the DataUpload is another claim's",
        files={"item_operations": [uploading("data")]},
        raw=file_of(upload("data", "k1", of="logs")),
        left=("moved data of claim shop/data",),
        lost={
            DATA: not_moved("its DataUpload is of another claim, shop/logs"),
            LOGS: NO_RECORD,
        },
        lost_without={
            DATA: not_moved("its DataUpload is of another claim, shop/logs"),
            LOGS: NO_RECORD,
        },
        snapshotted=frozenset({DATA, LOGS}),
    ),
    Way(
        title="not moved: without a snapshot, and with one that was begun",
        files={"item_operations": [uploading("data"), uploading("logs")]},
        raw=file_of(upload("data", phase="Failed"), upload("logs", "k1", phase="Canceled")),
        left=("moved data of claim shop/logs",),
        lost={
            DATA: not_moved("its DataUpload is Failed: no"),
            LOGS: not_moved("its DataUpload is Canceled: no reason is given"),
        },
        lost_without={
            DATA: not_moved("its DataUpload is Failed: no"),
            LOGS: not_moved("its DataUpload is Canceled: no reason is given"),
        },
        snapshotted=frozenset({DATA, LOGS}),
    ),
    Way(
        title="a DataUpload in the list of resources only",
        files={"resource_list": {"velero.io/v2alpha1/DataUpload": ["velero/data"]}},
        left=("moved data of DataUpload velero/data",),
    ),
    Way(
        title="the server's namespace, with the DataUploads of other backups",
        files={
            "resource_list": {"velero.io/v2alpha1/DataUpload": ["velero/data", "velero/logs"]},
        },
        raw=file_of(upload("data", "k1", by="another"), upload("logs", "k2", by="one more")),
    ),
    Way(
        title="the same, and one of its own",
        files={
            "item_operations": [uploading("data")],
            "resource_list": {"velero.io/v2alpha1/DataUpload": ["velero/data", "velero/logs"]},
        },
        raw=file_of(upload("data", "k1"), upload("logs", "k2", by="another")),
        repository=in_repository("k1"),
        lost_without={DATA: far("k1")},
        moved={DATA: "k1"},
        snapshotted=frozenset({DATA}),
    ),
    Way(
        title="every way at once",
        files={
            "pod_volume_backups": [saved("files", "k9", "kopia"), saved("odd", "x1", "other")],
            "snapshots": [native("snap-1", "pv-disk")],
            "csi_volume_snapshot_contents": [content("logs", "h1")],
            "volume_infos": [
                by_mover("data"),
                by_csi("logs", "h1"),
                record("none", skipped=True, skipped_reason="by a policy"),
            ],
            "item_operations": [uploading("data")],
            "resource_list": LISTED,
        },
        items=[mounting("files"), mounting("odd")],
        raw={**file_of(upload("data", "k1")), **snapshot_files("logs", "h1")},
        repository=in_repository("k9", "k1"),
        csi=frozenset({("d", "h1", SECRET)}),
        native=frozenset({"snap-1"}),
        left=("other snapshot x1 of volume data of pod shop/odd",),
        lost={("shop", "odd"): foreign("x1")},
        lost_without={
            ("shop", "odd"): foreign("x1"),
            ("shop", "files"): without_agents("k9"),
            DATA: far("k1"),
            LOGS: without_feature("h1"),
        },
        moved={DATA: "k1"},
        snapshotted=frozenset({DATA, LOGS}),
        pods={"files": {"data": ("kopia", "k9", 5)}},
    ),
]

WAYS = [*BY_REAL_SERVERS, *POD_VOLUMES, *SNAPSHOTS, *MOVED]

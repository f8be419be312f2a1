"""A backup for `backup describe`, as data: `describe` prints it as text, `describe_json` as JSON. Pure."""

from collections.abc import Sequence

import msgspec

from pinnace.api.labels import GLOBAL_VOLUME_POLICIES
from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.cli.output import cells, volume_infos
from pinnace.cli.output.description import Filters, Head, NameLists, choice, filters, head


class DescribedBackup(msgspec.Struct, frozen=True, kw_only=True):
    """The objects and files that a description shows beside the Backup itself.

    `resource_list`, `snapshots`, `volume_infos` and `operations` are set only with details; a str is an error
    that is shown in place of the content. Without `results` only the counts are shown. `tarball_bytes` is
    None if the size is unknown. `retention` is what the rules of its schedule say; empty without rules.
    `hold` is None if the backup is not held. `records_volumes` is false for versions that keep no
    `volume_infos`.
    """

    delete_requests: Sequence[JSONObject] = ()
    pod_volume_backups: Sequence[JSONObject] = ()
    resource_list: JSONObject | str | None = None
    snapshots: Sequence[JSONObject] | str | None = None
    csi_contents: Sequence[JSONObject] = ()
    results: JSONObject | None = None
    volume_infos: Sequence[JSONObject] = ()
    records_volumes: bool = False
    operations: Sequence[JSONObject] = ()
    tarball_bytes: int | None = None
    waits_for: str = ""
    retention: str = ""
    hold: str | None = None


class HookCommand(msgspec.Struct, frozen=True):
    """A command that a hook runs in a container."""

    container: str
    command: str
    on_error: str
    timeout: str


class DescribedHook(msgspec.Struct, frozen=True):
    """A hook of a backup's spec, and what it runs before and after an object is saved."""

    name: str
    namespaces: NameLists
    resources: NameLists
    selector: str
    before: list[HookCommand]
    after: list[HookCommand]


class BackupTemplate(msgspec.Struct, frozen=True):
    """The spec of a backup, or of the template of a schedule. `raw` has what is shown as it is stored."""

    filters: Filters
    storage_location: str
    snapshot_volumes: str
    ttl: str
    hooks: list[DescribedHook]
    ordered_resources: dict[str, str]
    raw: JSONObject


class NativeSnapshot(msgspec.Struct, frozen=True):
    """A snapshot of a disk."""

    volume: str
    identifier: str
    kind: str
    zone: str
    iops: str
    succeeded: bool


class Deletion(msgspec.Struct, frozen=True):
    """An attempt to delete the backup. `phase` is empty as long as no server has seen it."""

    when: str
    phase: str
    errors: list[str]

    @property
    def failed(self) -> bool:
        """Whether the deletion ended with the backup still there."""
        return self.phase == "Processed" and bool(self.errors)


class BackupDescription(msgspec.Struct, frozen=True):
    """All that is said of a backup.

    Attributes:
        native: the snapshots of disks; a str is the error of reading them, None stands for no details.
        csi_infos: the records of CSI snapshots, moved ones included.
        skipped: the volumes whose data is not in the backup, with the reason.
        found: the objects and files that it was made of.
    """

    head: Head
    template: BackupTemplate
    format_version: str
    expiration: str
    queue_position: int
    native_attempted: int
    native_completed: int
    native: list[NativeSnapshot] | str | None
    csi_infos: list[JSONObject]
    skipped: dict[str, str]
    deletions: list[Deletion]
    status: JSONObject
    found: DescribedBackup


def described(backup: JSONObject, found: DescribedBackup) -> BackupDescription:
    """The description of a backup."""
    status = cells.status(backup)
    return BackupDescription(
        head=head(backup, "itemsBackedUp"),
        template=described_template({**cells.spec(backup), **_global_policies(backup)}),
        format_version=text(status, "formatVersion"),
        expiration=cells.local_time(text(status, "expiration") or None, "<nil>"),
        queue_position=status.get("queuePosition") or 0,
        native_attempted=status.get("volumeSnapshotsAttempted") or 0,
        native_completed=status.get("volumeSnapshotsCompleted") or 0,
        native=found.snapshots
        if found.snapshots is None or isinstance(found.snapshots, str)
        else [_native(each) for each in found.snapshots],
        csi_infos=volume_infos.of_csi(found.volume_infos),
        skipped=volume_infos.skipped(found.volume_infos),
        deletions=[_deletion(each) for each in found.delete_requests],
        status=status,
        found=found,
    )


def _global_policies(backup: JSONObject) -> JSONObject:
    """The server's rules for volumes that a backup obeyed, in the form of its own. (AFT-070)"""
    name = text(backup, "metadata", "annotations", GLOBAL_VOLUME_POLICIES)
    return {"globalVolumePolicies": {"kind": "configmap", "name": name}} if name else {}


def described_template(spec: JSONObject) -> BackupTemplate:
    """The description of a backup's spec."""
    return BackupTemplate(
        filters=filters(spec),
        storage_location=text(spec, "storageLocation"),
        snapshot_volumes=cells.tristate(spec.get("snapshotVolumes")),
        ttl=cells.duration(spec.get("ttl")),
        hooks=[_hook(each) for each in objects(spec, "hooks", "resources")],
        ordered_resources=mapping(spec, "orderedResources"),
        raw=spec,
    )


def _hook(hook: JSONObject) -> DescribedHook:
    return DescribedHook(
        name=text(hook, "name"),
        namespaces=choice(hook, "Namespaces"),
        resources=choice(hook, "Resources"),
        selector=cells.selector(hook.get("labelSelector")),
        before=_commands(hook, "pre"),
        after=_commands(hook, "post"),
    )


def _commands(hook: JSONObject, key: str) -> list[HookCommand]:
    return [
        HookCommand(
            container=text(command, "container"),
            command=" ".join(map(str, listed(command, "command"))),
            on_error=text(command, "onError"),
            timeout=text(command, "timeout") or "0s",
        )
        for command in (mapping(entry, "exec") for entry in objects(hook, key))
    ]


def _native(snapshot: JSONObject) -> NativeSnapshot:
    # The keys of Velero's own files begin with capitals.
    given = {key.lower(): value for key, value in cells.spec(snapshot).items()}
    iops = given.get("volumeiops")
    return NativeSnapshot(
        volume=str(given.get("persistentvolumename", "")),
        identifier=text(cells.status(snapshot), "providerSnapshotID"),
        kind=str(given.get("volumetype") or ""),
        zone=str(given.get("volumeaz") or ""),
        iops="<N/A>" if iops is None else str(iops),
        succeeded=cells.phase(snapshot) == "Completed",
    )


def _deletion(request: JSONObject) -> Deletion:
    status = cells.status(request)
    return Deletion(
        when=cells.local_time(text(request, "metadata", "creationTimestamp") or None, "<n/a>"),
        phase=text(status, "phase"),
        errors=[str(error) for error in listed(status, "errors")],
    )

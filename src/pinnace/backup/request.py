"""Completes and validates a Backup as a user wrote it: defaults and locations. Pure.

(docs/spec: BKP 2, CTL 3.2, API 2.4)
"""

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from pinnace.api import GROUP
from pinnace.api.labels import (
    GLOBAL_VOLUME_POLICIES,
    OWN_TTL,
    SOURCE_CLUSTER_ADDRESS,
    SOURCE_CLUSTER_GIT_VERSION,
    SOURCE_CLUSTER_MAJOR_VERSION,
    SOURCE_CLUSTER_MINOR_VERSION,
    SOURCE_CLUSTER_UID,
    STORAGE_LOCATION,
    label_value,
)
from pinnace.api.nonadmin.names import Origin
from pinnace.api.phases import BackupPhase
from pinnace.api.selection.label_choice import label_choice_errors
from pinnace.api.selection.resource_filters import filter_errors
from pinnace.api.selection.validation import namespace_list_errors
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import later
from pinnace.api.velero.backup import CSI_SNAPSHOT_TIMEOUT, ITEM_OPERATION_TIMEOUT, Backup, BackupSpec
from pinnace.api.velero.data_movement import BUILT_IN_MOVERS
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation
from pinnace.api.velero.storage_location import (
    DEFAULT_LOCATION,
    BackupStorageLocation,
    BackupStorageLocationAccessMode,
)
from pinnace.archive.paths import FORMAT_VERSION
from pinnace.kube.identity import ClusterIdentity
from pinnace.kube.requesting import ServerVersion

BACKUP_VERSION = 1


class ServerDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The server's defaults for fields that a Backup leaves out. (docs/spec: BKP 2.2-2.4, 15)"""

    backup_ttl: Duration = msgspec.field(default_factory=lambda: Duration.hours(720))
    storage_location: str = DEFAULT_LOCATION
    volumes_to_fs_backup: bool = False
    snapshot_locations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Name of the snapshot location to take for a provider that has several."""
    snapshot_move_data: bool = False
    """Not applied to Backups of tenants, whose settings the administrator makes."""
    item_operation_timeout: Duration = ITEM_OPERATION_TIMEOUT
    volume_policies: str = ""
    """The ConfigMap with rules for the volumes of every backup; empty if there is none."""


class Unreadable(msgspec.Struct, frozen=True):
    """Stands for a list of locations that could not be read; `reason` is the API server's text."""

    reason: str


StorageLocations = Sequence[BackupStorageLocation] | Unreadable
SnapshotLocations = Sequence[VolumeSnapshotLocation] | Unreadable


def prepare_backup(
    backup: Backup,
    *,
    defaults: ServerDefaults,
    storage_locations: StorageLocations,
    snapshot_locations: SnapshotLocations,
    server_version: ServerVersion,
    now: datetime,
) -> Backup:
    """Complete and validate a Backup; the given one is not changed.

    The result's phase is InProgress, or FailedValidation with all problems found, in the order ttl,
    storage location, snapshot locations, resources, namespaces. The caller patches the difference between the
    given Backup and the result.

    Args:
        backup: an object of phase "" or New.
        defaults: the server's settings.
        storage_locations: those of the backup's namespace.
        snapshot_locations: likewise.
        server_version: of the cluster that is backed up.
        now: start of the backup, and what its expiration counts from.
    """
    prepared = copy.deepcopy(backup)
    spec, status = prepared.spec, prepared.status
    status.queue_position = 0
    status.version = BACKUP_VERSION
    status.format_version = FORMAT_VERSION
    spec.ttl = spec.ttl or defaults.backup_ttl
    spec.csi_snapshot_timeout = spec.csi_snapshot_timeout or CSI_SNAPSHOT_TIMEOUT
    spec.item_operation_timeout = spec.item_operation_timeout or defaults.item_operation_timeout
    ttl_problems = ttl_errors(spec, "spec")
    # A Backup that is refused for its ttl must stay long enough to be read.
    kept = defaults.backup_ttl if ttl_problems else spec.ttl
    status.expiration = later(now, kept.to_timedelta())
    problems = [*status.validation_errors, *ttl_problems]
    problems += _choose_pod_volumes(prepared, defaults)
    problems += _choose_storage_location(prepared, defaults, storage_locations)
    problems += _choose_snapshot_locations(prepared, defaults, snapshot_locations)
    prepared.metadata.labels = {
        **prepared.metadata.labels,
        STORAGE_LOCATION: label_value(spec.storage_location),
    }
    if prepared.metadata.annotations.get(OWN_TTL) == "":
        prepared.metadata.annotations[OWN_TTL] = str(defaults.backup_ttl)
    prepared.metadata.annotations = {
        **prepared.metadata.annotations,
        SOURCE_CLUSTER_GIT_VERSION: server_version.git_version,
        SOURCE_CLUSTER_MAJOR_VERSION: server_version.major,
        SOURCE_CLUSTER_MINOR_VERSION: server_version.minor,
    }
    problems += filter_errors(spec)
    problems += namespace_list_errors(spec.included_namespaces, spec.excluded_namespaces)
    if spec.uploader_config is not None and spec.uploader_config.parallel_files_upload < 0:
        problems.append("uploaderConfig.parallelFilesUpload must not be negative")
    if spec.snapshot_move_data is None and defaults.snapshot_move_data and not is_of_tenant(prepared):
        spec.snapshot_move_data = True
    problems += movement_errors(spec, "spec")
    problems += label_choice_errors(spec.label_selector, spec.or_label_selectors, "backup")

    status.validation_errors = problems
    if problems:
        status.phase = BackupPhase.FAILED_VALIDATION
    else:
        status.phase = BackupPhase.IN_PROGRESS
        status.start_timestamp = now
    return prepared


def note_source(prepared: Backup, cluster: ClusterIdentity) -> None:
    """Note in a prepared Backup which cluster it is of. (docs/adr/104)

    The address that a command has noted stays if it is of this cluster, as a server in a pod knows none.
    """
    notes = dict(prepared.metadata.annotations)
    address = cluster.address
    if cluster.uid and notes.get(SOURCE_CLUSTER_UID) == cluster.uid:
        address = address or notes.get(SOURCE_CLUSTER_ADDRESS, "")
    known = {SOURCE_CLUSTER_UID: cluster.uid, SOURCE_CLUSTER_ADDRESS: address}
    kept = {key: value for key, value in notes.items() if key not in known}
    prepared.metadata.annotations = {**kept, **{key: value for key, value in known.items() if value}}


def note_global_policies(prepared: Backup, config_map: str) -> None:
    """Note in a prepared Backup the server's rules for volumes that it obeys; empty for none. (AFT-070)"""
    notes = {k: v for k, v in prepared.metadata.annotations.items() if k != GLOBAL_VOLUME_POLICIES}
    prepared.metadata.annotations = notes | ({GLOBAL_VOLUME_POLICIES: config_map} if config_map else {})


def ttl_errors(spec: BackupSpec, path: str) -> list[str]:
    """The problems with how long the backup is kept; `path` names the spec."""
    if spec.ttl >= Duration():
        return []
    return [
        f"{path}.ttl must not be negative, and is {spec.ttl}: such a backup would be deleted at once; leave "
        "it out, or write how long to keep the backup, such as 720h"
    ]


def is_of_tenant(backup: Backup) -> bool:
    """Whether self-service made the Backup for a tenant."""
    return Origin.BACKUP.namespace_annotation in backup.metadata.annotations


def movement_errors(spec: BackupSpec, path: str) -> list[str]:
    """The problems with how data of snapshots is to be moved; `path` names the spec."""
    if spec.snapshot_move_data and spec.datamover not in BUILT_IN_MOVERS:
        return [
            f"{path}.datamover {spec.datamover} is not known: this server has only the built-in mover, velero"
            " (velero-fs)"
        ]
    return []


def _choose_pod_volumes(backup: Backup, defaults: ServerDefaults) -> list[str]:
    """Write into the spec whether pod volumes are saved by default; return the problems. (BEY 6.1)"""
    spec = backup.spec
    named = {
        value
        for value in (spec.default_volumes_to_restic, spec.default_volumes_to_fs_backup)
        if value is not None
    }
    if len(named) > 1:
        return [
            "defaultVolumesToRestic and defaultVolumesToFsBackup are names of one setting and must not differ"
        ]
    # Velero since 1.10 obeys the former name only if it is true, and shows only the present one.
    spec.default_volumes_to_fs_backup = named.pop() if named else defaults.volumes_to_fs_backup
    return []


def _choose_storage_location(
    backup: Backup, defaults: ServerDefaults, locations: StorageLocations
) -> list[str]:
    """Write the location into the spec; return the problems with it. (docs/spec: BKP 2.3)"""
    named = backup.spec.storage_location
    name = named or _default_storage_location(defaults, locations)
    backup.spec.storage_location = name
    if isinstance(locations, Unreadable):
        return [f"error getting backup storage location: {locations.reason}"]
    location = next((location for location in locations if location.metadata.name == name), None)
    if location is None:
        missing = f"the server default '{name}' doesn't exist"
        if named:
            missing = f"the default '{name}' wasn't found"
        return [
            f"an existing backup storage location wasn't specified at backup creation time and {missing}."
            " Please address this issue (see `velero backup-location -h` for options)"
            f' and create a new backup. Error: backupstoragelocations.{GROUP} "{name}" not found'
        ]
    if location.spec.access_mode == BackupStorageLocationAccessMode.READ_ONLY:
        return [
            f"backup can't be created because backup storage location {name} is currently in read-only mode"
        ]
    return []


def _default_storage_location(defaults: ServerDefaults, locations: StorageLocations) -> str:
    if isinstance(locations, Unreadable):
        return defaults.storage_location
    marked = (location.metadata.name for location in locations if location.spec.default)
    return next(marked, defaults.storage_location)


def _choose_snapshot_locations(
    backup: Backup, defaults: ServerDefaults, locations: SnapshotLocations
) -> list[str]:
    """Write the chosen names into the spec, or return the problems with them. (docs/spec: BKP 2.4)"""
    spec = backup.spec
    if spec.snapshot_volumes is False and spec.resource_policy is None and not defaults.volume_policies:
        spec.volume_snapshot_locations = []
        return []
    if isinstance(locations, Unreadable):
        named = sorted(set(spec.volume_snapshot_locations))
        if not named:
            return [f"error listing volume snapshot locations: {locations.reason}"]
        return [f"error getting volume snapshot location named {name}: {locations.reason}" for name in named]
    chosen, problems = _named_locations(spec.volume_snapshot_locations, locations)
    if not problems:
        problems = _complete_providers(chosen, locations, defaults.snapshot_locations)
    if not problems:
        spec.volume_snapshot_locations = sorted(chosen.values())
    return problems


def _named_locations(
    names: Sequence[str], locations: Sequence[VolumeSnapshotLocation]
) -> tuple[dict[str, str], list[str]]:
    """Provider to name for the locations that the spec names, and the problems with them."""
    providers = {location.metadata.name: location.spec.provider for location in locations}
    chosen: dict[str, str] = {}
    problems: list[str] = []
    for name in names:
        if name not in providers:
            problems.append(
                f"a VolumeSnapshotLocation CRD for the location {name} with the name specified in the backup"
                " spec needs to be created before this snapshot can be executed. Error:"
                f' volumesnapshotlocations.{GROUP} "{name}" not found'
            )
            continue
        first = chosen.setdefault(providers[name], name)
        if first != name:
            problems.append(
                f"more than one VolumeSnapshotLocation name specified for provider {providers[name]}:"
                f" {name}; unexpected name was {first}"
            )
    return chosen, problems


def _complete_providers(
    chosen: dict[str, str], locations: Sequence[VolumeSnapshotLocation], defaults: Mapping[str, str]
) -> list[str]:
    """Add a location for every provider that has none yet; return the problems."""
    names = {location.metadata.name for location in locations}
    by_provider: dict[str, list[str]] = {}
    for location in locations:
        by_provider.setdefault(location.spec.provider, []).append(location.metadata.name)
    problems: list[str] = []
    for provider, candidates in sorted(by_provider.items()):
        if provider in chosen:
            continue
        name = candidates[0] if len(candidates) == 1 else defaults.get(provider)
        if name is None:
            problems.append(
                f"provider {provider} has more than one possible volume snapshot location,"
                " and none were specified explicitly or as a default:"
                f" choose {' or '.join(candidates)} with --volume-snapshot-locations"
            )
        elif name not in names:
            problems.append(
                f"error getting volume snapshot location named {name}:"
                f' volumesnapshotlocations.{GROUP} "{name}" not found'
            )
        else:
            chosen[provider] = name
    return problems

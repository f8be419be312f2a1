"""The checks of a tenant's BackupSpec, and the spec of the Backup that is made for it. Pure.

(docs/spec: NAC 6.1, 6.5)
"""

from dataclasses import dataclass
from typing import Final

from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_part
from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.exclusions import ALWAYS_EXCLUDED, CLUSTER_OWN_KINDS, NAMESPACED_OWN_KINDS
from pinnace.api.nonadmin.restore_limits import MAX_PARALLEL_FILES
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.selection.label_choice import label_choice_errors
from pinnace.api.selection.names import EVERYTHING
from pinnace.api.selection.resource_filters import filter_errors, uses_common_lists
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import BackupSpec
from pinnace.nonadmin.objects import present
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.specs.enforcement import filled_in, violation
from pinnace.nonadmin.specs.sizes import size_problem

MAX_SNAPSHOT_TIMEOUT: Final = Duration.minutes(10)
"""The longest csiSnapshotTimeout of a tenant: the server's own, unless the administrator enforces another."""

_EXCLUDED_BY_SCOPE: Final = {
    "excludedClusterScopedResources": CLUSTER_OWN_KINDS,
    "excludedNamespaceScopedResources": NAMESPACED_OWN_KINDS,
}
_SCOPED_LISTS: Final = (
    "includedClusterScopedResources",
    "includedNamespaceScopedResources",
    *_EXCLUDED_BY_SCOPE,
)
_PREFIX: Final = "NonAdminBackup spec.backupSpec"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageChoice:
    """The location that a request names.

    Attributes:
        request: the NonAdminBackupStorageLocation in the tenant's namespace.
        location: the BackupStorageLocation with its id.
        ambiguous: why the BackupStorageLocation could not be determined.
    """

    request: JSONObject | None = None
    location: JSONObject | None = None
    ambiguous: str = ""


def location_id(non_admin_location: JSONObject | None) -> str:
    """The unique id of a tenant's location; empty before it has one."""
    return text(non_admin_location, "status", "veleroBackupStorageLocation", "nacuuid")


def backup_problem(
    non_admin_backup: JSONObject, storage: StorageChoice, settings: AdminSettings, server_namespace: str
) -> str:
    """Why a request is refused, by the first check that fails; empty if it is valid."""
    namespace = text(non_admin_backup, "metadata", "namespace")
    spec = mapping(non_admin_backup, "spec").get("backupSpec")
    if namespace == server_namespace:
        return "NonAdminBackup can not be used in the namespace of the server"
    if not isinstance(spec, dict):
        return f"{_PREFIX} is not set"
    if problem := size_problem(spec, _PREFIX):
        return problem
    try:
        decode(BackupSpec, present(spec))
    except DecodeError as error:
        return f"{_PREFIX} can not be read: {error.path}: {error.problem}"
    return (
        _scope_problem(spec, namespace)
        or _storage_problem(spec, storage)
        or (
            f"{_PREFIX}.volumeSnapshotLocations is restricted"
            if spec.get("volumeSnapshotLocations") is not None
            else ""
        )
        or violation(BackupSpec, settings.backup, spec, "spec.backupSpec")
        or "; ".join(check_part(BackupSpec, spec, _PREFIX).errors)
        or _wait_problem(spec, settings)
        or _filter_problem(spec, settings)
    )


def _scope_problem(spec: JSONObject, namespace: str) -> str:
    if any(name != namespace for name in listed(spec, "includedNamespaces")):
        return (
            f"{_PREFIX}.includedNamespaces is restricted, can not contain namespaces other than: {namespace}"
        )
    if spec.get("excludedNamespaces") is not None:
        return f"{_PREFIX}.excludedNamespaces is restricted"
    if spec.get("includeClusterResources"):
        return f"{_PREFIX}.includeClusterResources is restricted, can only be set to false"
    if spec.get("includedClusterScopedResources"):
        return f"{_PREFIX}.includedScopedResources is restricted, must remain empty"
    if config := mapping(spec, "uploaderConfig"):
        parallel = config.get("parallelFilesUpload")
        if isinstance(parallel, int) and parallel > MAX_PARALLEL_FILES:
            return f"{_PREFIX}.uploaderConfig.parallelFilesUpload can not be larger than {MAX_PARALLEL_FILES}"
    if spec.get("resourcePolicy") is not None:
        return f"{_PREFIX}.resourcePolicy is restricted: it names a ConfigMap of the server's namespace"
    return ""


def _filter_problem(spec: JSONObject, settings: AdminSettings) -> str:
    """Why the filters cannot be used with those that the administrator prescribes; empty if they can.

    A tenant's filter of one kind must not get around a prescribed filter of the other kind.
    """
    if spec.get("snapshotMoveData") and not settings.backup.get("snapshotMoveData"):
        # Its pods run in the server's namespace and read whole volumes: only an administrator allows that.
        return f"{_PREFIX}.snapshotMoveData is restricted, can only be set where the administrator sets it"
    filled = decode(BackupSpec, filled_in(BackupSpec, settings.backup, spec))
    errors = [
        *filter_errors(filled),
        *label_choice_errors(filled.label_selector, filled.or_label_selectors, "backup"),
    ]
    return f"{_PREFIX}: {'; '.join(errors)}" if errors else ""


def _wait_problem(spec: JSONObject, settings: AdminSettings) -> str:
    """Why the timeout is refused: a snapshot that never comes would block all requests behind this one."""
    timeout = Duration.parse(text(spec, "csiSnapshotTimeout") or "0s")
    if timeout > MAX_SNAPSHOT_TIMEOUT and not settings.backup.get("csiSnapshotTimeout"):
        return f"{_PREFIX}.csiSnapshotTimeout can not be longer than {MAX_SNAPSHOT_TIMEOUT}"
    return ""


def _storage_problem(spec: JSONObject, storage: StorageChoice) -> str:
    name = text(spec, "storageLocation")
    if not name:
        return ""
    if storage.request is None:
        return (
            "NonAdminBackupStorageLocation not found in the namespace: "
            f'NonAdminBackupStorageLocation.oadp.openshift.io "{name}" not found'
        )
    if text(storage.request, "status", "phase") != NonAdminPhase.CREATED:
        return (
            "NonAdminBackupStorageLocation is not in created state and can not be used for the NonAdminBackup"
        )
    unique_id = location_id(storage.request)
    if not unique_id:
        return "unable to get VeleroBackupStorageLocation UUID from NonAdminBackupStorageLocation Status"
    if storage.ambiguous:
        return (
            f"unable to get valid VeleroBackupStorageLocation referenced by the NACUUID {unique_id} "
            f"from NonAdminBackupStorageLocation Status: {storage.ambiguous}"
        )
    if storage.location is None:
        return f"VeleroBackupStorageLocation with NACUUID {unique_id} not found in the OADP namespace"
    if text(storage.location, "status", "phase") != "Available":
        return (
            f"VeleroBackupStorageLocation with NACUUID {unique_id} is not in available state "
            "and can not be used for the NonAdminBackup"
        )
    return ""


def backup_spec(non_admin_backup: JSONObject, storage: StorageChoice, settings: AdminSettings) -> JSONObject:
    """The Backup's spec for a request that was found valid. (docs/spec: NAC 6.5)"""
    spec = filled_in(BackupSpec, settings.backup, mapping(non_admin_backup, "spec", "backupSpec"))
    spec["includedNamespaces"] = [text(non_admin_backup, "metadata", "namespace")]
    if text(spec, "storageLocation"):
        spec["storageLocation"] = text(storage.request, "status", "veleroBackupStorageLocation", "name")
        # The owner of the bucket could write other snapshots' ids into it, and have them deleted. (A15)
        spec["snapshotVolumes"] = False
    if any(listed(spec, name) for name in _SCOPED_LISTS) or _may_have_filter_policies(spec):
        for name, kinds in _EXCLUDED_BY_SCOPE.items():
            given = listed(spec, name)
            spec[name] = given if EVERYTHING in given else [*given, *kinds]
    else:
        spec["excludedResources"] = [*listed(spec, "excludedResources"), *ALWAYS_EXCLUDED]
    return spec


def _may_have_filter_policies(spec: JSONObject) -> bool:
    """Whether the kinds that no tenant gets must be excluded scope by scope.

    A document that the administrator prescribes may have filters, which a Backup with one pair of lists for
    all kinds cannot have. (docs/spec/after-1.18.md, 2.4)
    """
    return bool(spec.get("resourcePolicy")) and not uses_common_lists(decode(BackupSpec, spec))

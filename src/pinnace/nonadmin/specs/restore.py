"""The checks of a tenant's RestoreSpec, and the spec of the Restore that is made for it. Pure.

(docs/spec: NAC 6.2, 6.6, 17 A12-A15)
"""

from typing import Final

from pinnace.api.chosen_objects import decode_chosen
from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_part
from pinnace.api.labels import CHOSEN_OBJECTS, IDENTITY_SECRET
from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.names import is_object_name
from pinnace.api.nonadmin.restore_limits import (
    CONFIG_MAP_FIELDS,
    MAX_OBJECTS,
    MAX_PARALLEL_FILES,
    RESTRICTED_FIELDS,
    RESTRICTED_POLICY,
    excluded_kinds,
)
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.selection.label_choice import label_choice_errors
from pinnace.api.velero.restore import ExistingVolumeDataPolicy, RestoreSpec
from pinnace.nonadmin.objects import present
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.settings.values import fields, is_zero, same
from pinnace.nonadmin.specs.enforcement import filled_in, violation
from pinnace.nonadmin.specs.sizes import size_problem

_PREFIX: Final = "NonAdminRestore spec.restoreSpec"
_RESTRICTED: Final = "NonAdminRestore nonAdminRestore.spec.restoreSpec"


def wanted_backup(non_admin_restore: JSONObject) -> str:
    """The name of the NonAdminBackup that a request is about."""
    return text(non_admin_restore, "spec", "restoreSpec", "backupName")


def restore_problem(
    non_admin_restore: JSONObject,
    non_admin_backup: JSONObject | None,
    settings: AdminSettings,
    server_namespace: str,
) -> str:
    """Why a request is refused, by the first check that fails; empty if it is valid.

    Args:
        non_admin_backup: the NonAdminBackup that the request names, in its own namespace.
    """
    spec = mapping(non_admin_restore, "spec").get("restoreSpec")
    if text(non_admin_restore, "metadata", "namespace") == server_namespace:
        return "NonAdminRestore can not be used in the namespace of the server"
    if not isinstance(spec, dict):
        return f"{_PREFIX} is not set"
    if problem := size_problem(spec, _PREFIX):
        return problem
    try:
        decode(RestoreSpec, present(spec))
    except DecodeError as error:
        return f"{_PREFIX} can not be read: {error.path}: {error.problem}"
    if text(spec, "scheduleName"):
        return f"{_RESTRICTED}.scheduleName is restricted"
    if problem := _backup_problem(spec, non_admin_backup):
        return problem
    # A modifier is a config map of the server's namespace; the role `edit` may not write a status.
    for name in RESTRICTED_FIELDS:
        if spec.get(name) not in (None, False):
            why = ": it names a ConfigMap of the server's namespace" if name in CONFIG_MAP_FIELDS else ""
            return f"{_RESTRICTED}.{name} is restricted{why}"
    if spec.get("existingResourcePolicy") == RESTRICTED_POLICY:
        return f"{_RESTRICTED}.existingResourcePolicy is restricted, can only be none or update"
    # It would write over data that pods of the namespace may use by then.
    if spec.get("existingVolumeDataPolicy") not in (None, "", ExistingVolumeDataPolicy.NONE):
        return f"{_RESTRICTED}.existingVolumeDataPolicy is restricted, can only be none"
    if mapping(spec, "uploaderConfig").get("deleteExtraFiles"):
        return f"{_RESTRICTED}.uploaderConfig.deleteExtraFiles is restricted"
    if spec.get("includeClusterResources"):
        return f"{_RESTRICTED}.includeClusterResources is restricted, can only be set to false"
    parallel = mapping(spec, "uploaderConfig").get("parallelFilesDownload")
    if isinstance(parallel, int) and parallel > MAX_PARALLEL_FILES:
        limit = f"can not be larger than {MAX_PARALLEL_FILES}"
        return f"{_RESTRICTED}.uploaderConfig.parallelFilesDownload {limit}"
    return (
        violation(RestoreSpec, settings.restore, spec, "spec.restoreSpec")
        or "; ".join(check_part(RestoreSpec, spec, _PREFIX).errors)
        or _selector_problem(spec, settings)
        or _objects_problem(non_admin_restore)
        or _identity_problem(non_admin_restore)
    )


def chosen_objects(non_admin_restore: JSONObject) -> JSONObject:
    """The annotation with the single objects of a request, for the Restore; it can only narrow the spec."""
    value = text(non_admin_restore, "metadata", "annotations", CHOSEN_OBJECTS)
    return {CHOSEN_OBJECTS: value} if value else {}


def identity_secret(non_admin_restore: JSONObject) -> JSONObject:
    """The annotation with the Secret whose identities open the backup, for the Restore.

    The server reads that Secret in the namespace of the request only.
    """
    value = text(non_admin_restore, "metadata", "annotations", IDENTITY_SECRET)
    return {IDENTITY_SECRET: value} if value else {}


def _identity_problem(non_admin_restore: JSONObject) -> str:
    for value in identity_secret(non_admin_restore).values():
        if not is_object_name(value):
            return f"NonAdminRestore annotation {IDENTITY_SECRET} is not the name of a Secret"
    return ""


def _objects_problem(non_admin_restore: JSONObject) -> str:
    """Why the single objects are refused: they are compared with the backup, and told apart in errors."""
    namespace = text(non_admin_restore, "metadata", "namespace")
    for value in chosen_objects(non_admin_restore).values():
        place = f"NonAdminRestore annotation {CHOSEN_OBJECTS}"
        try:
            chosen = decode_chosen(value)
        except ValueError as error:
            return f"{place}: {error}"
        if len(chosen.objects) > MAX_OBJECTS:
            return f"{place} names {len(chosen.objects)} objects, at most {MAX_OBJECTS} are allowed"
        if any(each.namespace != namespace for each in chosen.objects):
            return f"{place} is restricted, can only name objects of the namespace: {namespace}"
    return ""


def _selector_problem(spec: JSONObject, settings: AdminSettings) -> str:
    """Why the label selectors are refused: a tenant's must not get around the administrator's."""
    filled = decode(RestoreSpec, filled_in(RestoreSpec, settings.restore, present(spec)))
    errors = label_choice_errors(filled.label_selector, filled.or_label_selectors, "restore")
    return f"{_PREFIX}: {'; '.join(errors)}" if errors else ""


def _backup_problem(spec: JSONObject, non_admin_backup: JSONObject | None) -> str:
    name = text(spec, "backupName")
    if not name:
        return f"{_PREFIX}.backupName is not set"
    if non_admin_backup is None:
        missing = f'NonAdminBackup.oadp.openshift.io "{name}" not found'
        return f"{_PREFIX}.backupName is invalid: {missing}"
    if text(non_admin_backup, "status", "phase") != NonAdminPhase.CREATED:
        return f"{_PREFIX}.backupName is invalid: NonAdminBackup is not ready to be restored"
    return ""


def restore_spec(
    non_admin_restore: JSONObject, non_admin_backup: JSONObject, settings: AdminSettings, *, trusted: bool
) -> JSONObject:
    """The Restore's spec for a request that was found valid.

    Args:
        trusted: whether the administrator's own location holds the backup.
    """
    spec = present(mapping(non_admin_restore, "spec", "restoreSpec"))
    spec["backupName"] = text(non_admin_backup, "status", "veleroBackup", "name")
    spec["includedNamespaces"] = [text(non_admin_restore, "metadata", "namespace")]
    spec = filled_in(RestoreSpec, settings.restore, spec)
    if not trusted:
        spec |= {"includeClusterResources": False, "restorePVs": False}
    excluded = excluded_kinds(trusted=trusted, allowed=settings.restorable_resources)
    spec["excludedResources"] = [*listed(spec, "excludedResources"), *excluded, "volumesnapshotclasses"]
    return spec


def widened_fields(began: JSONObject, wanted: JSONObject) -> list[str]:
    """The fields of a Restore that has begun whose value exceeds what would be written for its request now.

    What it leaves out beyond that is no matter, and neither is what the server has filled in.

    Args:
        began: the spec of the Restore.
        wanted: by `restore_spec`.
    """
    excluded = [
        name for name in listed(wanted, "excludedResources") if name not in listed(began, "excludedResources")
    ]
    return ["excludedResources"] * bool(excluded) + [
        name
        for name, node in fields(RestoreSpec).items()
        if name != "excludedResources"
        and not is_zero(wanted.get(name), node)
        and not same(wanted.get(name), began.get(name), node)
    ]

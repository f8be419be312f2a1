"""What an administrator prescribes for self-service, as read from a config map. Pure. (docs/spec: NAC 2)

The document has the structure of a DataProtectionApplication's spec, so that one can be copied over:
`nonAdmin` with the settings, `configuration.velero.args.backup-sync-period` with the server's own period.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import Struct

from pinnace.api.backup import BackupSpec
from pinnace.api.codec import DecodeError, decode
from pinnace.api.durations import Duration
from pinnace.api.restore import RestoreSpec
from pinnace.api.storage_location import BackupStorageLocationSpec
from pinnace.nonadmin.objects import member, present, text
from pinnace.nonadmin.values import fields, is_zero
from pinnace.runtime.errors import RuntimeFailure
from pinnace.runtime.keys import JSONObject

DEFAULT_COLLECTION_PERIOD: Final = Duration.hours(24)
DEFAULT_SYNC_PERIOD: Final = Duration.minutes(2)
DEFAULT_VELERO_SYNC_PERIOD: Final = Duration.minutes(1)

KEYS: Final = (
    "enable",
    "enforceBackupSpec",
    "enforceRestoreSpec",
    "enforceBSLSpec",
    "requireApprovalForBSL",
    "garbageCollectionPeriod",
    "backupSyncPeriod",
)

_NOT_ENFORCEABLE_BACKUP: Final = (
    "storageLocation",
    "volumeSnapshotLocations",
    "includedNamespaces",
    "excludedNamespaces",
)
_NOT_ENFORCEABLE_RESTORE: Final = (
    "scheduleName",
    "includedNamespaces",
    "excludedNamespaces",
    "namespaceMapping",
)


class SettingsError(RuntimeFailure):
    """The settings contradict themselves, or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """What holds for all tenants.

    Attributes:
        backup, restore, location: prescribed fields of the specs.
        require_approval: a location is used only after an administrator has said so.
        collection_period: how often what lost its request is removed; zero for never.
        sync_period: how often requests are made for backups found in storage; zero for never.
        velero_sync_period: how often the server looks through locations that do not say.
    """

    backup: JSONObject = field(default_factory=dict)
    restore: JSONObject = field(default_factory=dict)
    location: JSONObject = field(default_factory=dict)
    require_approval: bool = False
    collection_period: Duration = DEFAULT_COLLECTION_PERIOD
    sync_period: Duration = DEFAULT_SYNC_PERIOD
    velero_sync_period: Duration = DEFAULT_VELERO_SYNC_PERIOD

    def with_flags(
        self,
        *,
        require_approval: bool | None = None,
        collection_period: Duration | None = None,
        sync_period: Duration | None = None,
    ) -> "AdminSettings":
        """The settings with what flags say in place of the document. Raises SettingsError."""
        changed = replace(
            self,
            require_approval=self.require_approval if require_approval is None else require_approval,
            collection_period=self.collection_period if collection_period is None else collection_period,
            sync_period=self.sync_period if sync_period is None else sync_period,
        )
        changed.check()
        return changed

    def check(self) -> None:
        """Refuse what cannot work. A period of zero is off, so nothing is compared with it.

        Raises:
            SettingsError: naming the field.
        """
        for key, period in (
            ("garbageCollectionPeriod", self.collection_period),
            ("backupSyncPeriod", self.sync_period),
        ):
            if period < Duration():
                raise SettingsError(f"DPA spec.nonAdmin.{key} can not be negative")
        if self.sync_period and self.collection_period and self.sync_period >= self.collection_period:
            raise SettingsError(
                f"DPA spec.nonAdmin.backupSyncPeriod ({self.sync_period}) can not be greater or equal "
                f"spec.nonAdmin.garbageCollectionPeriod ({self.collection_period})"
            )
        own = _duration(self.location.get("backupSyncPeriod"), "enforceBSLSpec.backupSyncPeriod")
        self._check_sooner("spec.nonAdmin.enforceBSLSpec.backupSyncPeriod", own)

    def check_default_locations(self, locations: Iterable[JSONObject]) -> None:
        """Refuse default locations that are looked through too seldom. Raises SettingsError."""
        for location in locations:
            if member(location, "spec", "default") is True:
                own = _duration(member(location, "spec", "backupSyncPeriod"), "backupSyncPeriod")
                name = text(location, "metadata", "name")
                period = own or self.velero_sync_period
                self._check_sooner(f"the sync period of the default backup storage location {name}", period)

    def _check_sooner(self, what: str, period: Duration | None) -> None:
        if period and self.sync_period and period >= self.sync_period:
            raise SettingsError(
                f"DPA {what} ({period}) can not be greater or equal "
                f"spec.nonAdmin.backupSyncPeriod ({self.sync_period})"
            )


def read_settings(document: object, *, velero_sync_period: Duration | None = None) -> AdminSettings:
    """Read and check the settings.

    Args:
        document: the parsed config map entry; None is an empty one.
        velero_sync_period: of the server, if it is known better than by the document.

    Raises:
        SettingsError: naming the field.
    """
    if document is not None and not isinstance(document, Mapping):
        raise SettingsError("the settings are not a map with the key nonAdmin")
    given = member(document, "nonAdmin")
    if given is not None and not isinstance(given, Mapping):
        raise SettingsError("spec.nonAdmin is not a map")
    for key in given or ():
        if key not in KEYS:
            raise SettingsError(f"spec.nonAdmin.{key} is no setting; there are {', '.join(KEYS)}")
    own = member(document, "configuration", "velero", "args", "backup-sync-period")
    settings = AdminSettings(
        backup=_enforced(given, "enforceBackupSpec", BackupSpec),
        restore=_enforced(given, "enforceRestoreSpec", RestoreSpec),
        location=_enforced(given, "enforceBSLSpec", BackupStorageLocationSpec),
        require_approval=_flag(given, "requireApprovalForBSL"),
        collection_period=_period(given, "garbageCollectionPeriod", DEFAULT_COLLECTION_PERIOD),
        sync_period=_period(given, "backupSyncPeriod", DEFAULT_SYNC_PERIOD),
        velero_sync_period=_duration(own, "configuration.velero.args.backup-sync-period")
        or velero_sync_period
        or DEFAULT_VELERO_SYNC_PERIOD,
    )
    _check_enforceable(settings)
    settings.check()
    return settings


def _enforced(given: object, key: str, struct: type[Struct]) -> JSONObject:
    value = member(given, key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SettingsError(f"spec.nonAdmin.{key} is not a map")
    known = fields(struct)
    for name in value:
        if name not in known or (struct is BackupStorageLocationSpec and name == "default"):
            # A prescription that a typing error switches off would be worse than none.
            raise SettingsError(f"spec.nonAdmin.{key}.{name} is no field that can be prescribed")
    try:
        decode(struct, present(value))
    except DecodeError as error:
        raise SettingsError(f"spec.nonAdmin.{key}.{error.path}: {error.problem}") from error
    return present(value)


def _check_enforceable(settings: AdminSettings) -> None:
    # The keys in these texts differ from the real ones; the texts are known so. (docs/spec: NAC 2)
    for name in _NOT_ENFORCEABLE_BACKUP:
        if not is_zero(settings.backup.get(name), fields(BackupSpec)[name]):
            raise SettingsError(f"DPA spec.nonAdmin.enforcedBackupSpec.{name} is non-enforceable by admins")
    if settings.backup.get("includeClusterResources") is True:
        raise SettingsError(
            "DPA spec.nonAdmin.enforcedBackupSpec.includeClusterResources is non-enforceable by admins "
            "as true, must be set to false if enforced by admins"
        )
    for name in _NOT_ENFORCEABLE_RESTORE:
        if not is_zero(settings.restore.get(name), fields(RestoreSpec)[name]):
            raise SettingsError(f"DPA spec.nonAdmin.enforcedRestoreSpec.{name} is non-enforceable by admins")


def _flag(given: object, key: str) -> bool:
    value = member(given, key)
    if not isinstance(value, bool | None):
        raise SettingsError(f"spec.nonAdmin.{key} is neither true nor false")
    return bool(value)


def _period(given: object, key: str, default: Duration) -> Duration:
    period = _duration(member(given, key), f"nonAdmin.{key}")
    return default if period is None else period


def _duration(value: object, key: str) -> Duration | None:
    """A duration as Go writes it, or as a number of nanoseconds."""
    if value is None:
        return None
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return Duration(value)
        if isinstance(value, str):
            return Duration(int(value)) if value.isascii() and value.isdigit() else Duration.parse(value)
    except ValueError as error:
        raise SettingsError(f"spec.{key}: {error}") from error
    raise SettingsError(f"spec.{key} is no duration such as 2m0s")

"""The administrator's settings of self-service, as read from a config map. Pure. (docs/spec: NAC 2)

The document has the structure of a DataProtectionApplication's spec, so that one can be copied over:
`nonAdmin` with the settings, `configuration.velero.args.backup-sync-period` with the server's own period.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from pinnace.api.codec import DecodeError, decode
from pinnace.api.nonadmin.restore_limits import DEFAULT_HOOK_TIME, DEFAULT_UNFINISHED
from pinnace.api.objects import JSONObject, member, text
from pinnace.api.values.digits import is_digits
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import BackupSpec
from pinnace.api.velero.restore import RestoreSpec
from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.nonadmin.objects import present
from pinnace.nonadmin.settings.values import fields, is_zero
from pinnace.runtime.errors import RuntimeFailure
from pinnace.store_access.addresses import parse_allowed

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
    "maxUnfinishedBackups",
    "maxUnfinishedRestores",
    "adoptFormerNamespaces",
    "allowedEndpoints",
    "maxHookTime",
    "restorableResources",
)
"""The last six do not exist upstream. (docs/spec: NAC 17 A20, A27 to A29, A36)"""

ANY: Final = "*"

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
    """The settings that apply to all tenants.

    Attributes:
        backup, restore, location: prescribed fields of the specs.
        require_approval: a location is used only after an administrator has approved it.
        collection_period: how often orphans are deleted; zero for never.
        sync_period: how often requests are made for backups found in storage; zero for never.
        velero_sync_period: how often the server syncs locations that do not say.
        max_unfinished_backups, max_unfinished_restores: of one namespace at a time; 0 for any number.
        adopted_namespaces: by name, the uid of the namespace that gets the backups of a former namespace of
            that name; `*` stands for any.
        allowed_endpoints: addresses, networks and hosts where tenants' stores may be, besides the public
            internet.
        restorable_resources: kinds that tenants may restore from the administrator's location although the
            role `edit` may not create them.
    """

    backup: JSONObject = field(default_factory=dict)
    restore: JSONObject = field(default_factory=dict)
    location: JSONObject = field(default_factory=dict)
    require_approval: bool = False
    collection_period: Duration = DEFAULT_COLLECTION_PERIOD
    sync_period: Duration = DEFAULT_SYNC_PERIOD
    velero_sync_period: Duration = DEFAULT_VELERO_SYNC_PERIOD
    max_unfinished_backups: int = 0
    max_unfinished_restores: int = DEFAULT_UNFINISHED
    adopted_namespaces: Mapping[str, str] = field(default_factory=dict)
    allowed_endpoints: tuple[str, ...] = ()
    max_hook_time: Duration = DEFAULT_HOOK_TIME
    restorable_resources: tuple[str, ...] = ()

    def with_flags(self, **flags: object) -> "AdminSettings":
        """The settings, replaced by flags that are not None. Raises SettingsError."""
        given = {name: value for name, value in flags.items() if value is not None}
        changed = replace(self, **given)  # type: ignore[arg-type]
        changed.check()
        return changed

    def hands_over(self, namespace: str, former: str, present: str) -> bool:
        """Whether backups of a former namespace of that name belong to the present one.

        Args:
            former, present: the uids of both.
        """
        agreed = (self.adopted_namespaces.get(name) for name in (namespace, ANY))
        return former == present or any(uid in (ANY, present) for uid in agreed)

    def endpoints(self) -> tuple[str, ...]:
        """Where stores may be besides the public internet: the allowed endpoints and an enforced one."""
        enforced = urlsplit(text(self.location, "config", "s3Url")).hostname
        return (*self.allowed_endpoints, *((enforced,) if enforced else ()))

    def check(self) -> None:
        """Refuse settings that cannot work. A period of zero is off, so nothing is compared with it.

        Raises:
            SettingsError: naming the field.
        """
        for key, period in (
            ("garbageCollectionPeriod", self.collection_period),
            ("backupSyncPeriod", self.sync_period),
            ("maxHookTime", self.max_hook_time),
        ):
            if period < Duration():
                raise SettingsError(f"DPA spec.nonAdmin.{key} can not be negative")
        if self.sync_period and self.collection_period and self.sync_period >= self.collection_period:
            raise SettingsError(
                f"DPA spec.nonAdmin.backupSyncPeriod ({self.sync_period}) can not be greater or equal "
                f"spec.nonAdmin.garbageCollectionPeriod ({self.collection_period})"
            )
        for key, limit in (
            ("maxUnfinishedBackups", self.max_unfinished_backups),
            ("maxUnfinishedRestores", self.max_unfinished_restores),
        ):
            if limit < 0:
                raise SettingsError(f"spec.nonAdmin.{key} can not be negative; 0 means no limit")
        if any(not name or "," in name or name == ANY for name in self.restorable_resources):
            raise SettingsError("spec.nonAdmin.restorableResources must be a list of names of resources")
        for name, uid in self.adopted_namespaces.items():
            if not name or not uid:
                raise SettingsError(
                    'spec.nonAdmin.adoptFormerNamespaces needs a name and a uid of each namespace, or "*"'
                )
        try:
            parse_allowed(self.endpoints())
        except ValueError as error:
            raise SettingsError(
                f"spec.nonAdmin.allowedEndpoints or enforceBSLSpec.config.s3Url: {error}"
            ) from error
        own = _duration(self.location.get("backupSyncPeriod"), "enforceBSLSpec.backupSyncPeriod")
        self._check_sooner("spec.nonAdmin.enforceBSLSpec.backupSyncPeriod", own)

    def check_default_locations(self, locations: Iterable[JSONObject]) -> None:
        """Refuse default locations that are synced too rarely. Raises SettingsError."""
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
        document: the parsed config map entry; None if it is empty.
        velero_sync_period: the server's own, used if the document has none.

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
            raise SettingsError(f"spec.nonAdmin.{key} is not a setting; the settings are {', '.join(KEYS)}")
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
        max_unfinished_backups=_limit(given, "maxUnfinishedBackups"),
        max_unfinished_restores=_limit(given, "maxUnfinishedRestores"),
        adopted_namespaces=_texts(given, "adoptFormerNamespaces"),
        allowed_endpoints=_list(given, "allowedEndpoints"),
        max_hook_time=_period(given, "maxHookTime", DEFAULT_HOOK_TIME),
        restorable_resources=_list(given, "restorableResources"),
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
            # A field that a typing error leaves unenforced would be worse than none.
            raise SettingsError(f"spec.nonAdmin.{key}.{name} is not a field that can be prescribed")
    try:
        decode(struct, present(value))
    except DecodeError as error:
        raise SettingsError(f"spec.nonAdmin.{key}.{error.path}: {error.problem}") from error
    return present(value)


def _check_enforceable(settings: AdminSettings) -> None:
    # The keys in these texts differ from the real ones: the texts are upstream's. (docs/spec: NAC 2)
    for name in _NOT_ENFORCEABLE_BACKUP:
        if not is_zero(settings.backup.get(name), fields(BackupSpec)[name]):
            raise SettingsError(f"DPA spec.nonAdmin.enforcedBackupSpec.{name} is non-enforceable by admins")
    if settings.backup.get("includeClusterResources") is True:
        raise SettingsError(
            "DPA spec.nonAdmin.enforcedBackupSpec.includeClusterResources is non-enforceable by admins "
            "as true, must be set to false if enforced by admins"
        )
    if settings.backup.get("includedClusterScopedResources"):
        raise SettingsError(
            "DPA spec.nonAdmin.enforcedBackupSpec.includedClusterScopedResources is non-enforceable by "
            "admins and must remain empty"
        )
    for name in _NOT_ENFORCEABLE_RESTORE:
        if not is_zero(settings.restore.get(name), fields(RestoreSpec)[name]):
            raise SettingsError(f"DPA spec.nonAdmin.enforcedRestoreSpec.{name} is non-enforceable by admins")


def _flag(given: object, key: str) -> bool:
    value = member(given, key)
    if not isinstance(value, bool | None):
        raise SettingsError(f"spec.nonAdmin.{key} is neither true nor false")
    return bool(value)


def _limit(given: object, key: str) -> int:
    value = member(given, key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise SettingsError(f"spec.nonAdmin.{key} is not a whole number")
    return value or 0


def _texts(given: object, key: str) -> dict[str, str]:
    value = member(given, key)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(
        isinstance(each, str) for entry in value.items() for each in entry
    ):
        raise SettingsError(f"spec.nonAdmin.{key} is not a map of texts; put a * in quotes")
    return dict(value)


def _list(given: object, key: str) -> tuple[str, ...]:
    value = member(given, key)
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise SettingsError(f"spec.nonAdmin.{key} is not a list of texts")
    return tuple(value or ())


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
            return Duration(int(value)) if is_digits(value) else Duration.parse(value)
    except ValueError as error:
        raise SettingsError(f"spec.{key}: {error}") from error
    raise SettingsError(f"spec.{key} is not a duration such as 2m0s")

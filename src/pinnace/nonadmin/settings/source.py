"""The administrator's settings as they are now: from a config map that is watched, and from flags."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from pinnace.api.objects import JSONObject, text
from pinnace.api.values.durations import Duration
from pinnace.nonadmin.settings.admin import AdminSettings, SettingsError, read_settings
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

CONFIG_MAP: Final = "pinnace-nonadmin"
ENTRY: Final = "settings.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFlags:
    """The flags that replace values of the config map; None if a flag is not given.

    Attributes:
        config_map: its name, in the namespace of the server.
        velero_sync_period: how often the server syncs locations that do not say.
    """

    config_map: str = CONFIG_MAP
    require_approval: bool | None = None
    collection_period: Duration | None = None
    sync_period: Duration | None = None
    velero_sync_period: Duration | None = None
    max_unfinished_backups: int | None = None
    max_unfinished_restores: int | None = None
    adopted_namespaces: Mapping[str, str] | None = None
    allowed_endpoints: tuple[str, ...] | None = None


class SettingsSource:
    """Settings that are read again whenever the config map changes.

    Bad settings end the start of the process. Later they change nothing: the former settings stay in force,
    and the log says what is wrong.

    Args:
        default_locations: the server's locations, to check their periods.
    """

    def __init__(self, flags: SettingsFlags, default_locations: Callable[[], Iterable[JSONObject]]) -> None:
        self._flags = flags
        self._default_locations = default_locations
        self._current = AdminSettings()
        self._listeners: list[Callable[[], None]] = []

    def __call__(self) -> AdminSettings:
        return self._current

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the settings have changed."""
        self._listeners.append(listener)

    def start(self, config_map: JSONObject | None) -> None:
        """Read the settings that the process starts with. Raises SettingsError."""
        self._current = self._read(config_map)
        self._current.check_default_locations(self._default_locations())
        _log_settings("Settings of self-service", self._current)

    def take(self, config_map: JSONObject | None) -> None:
        """Adopt changed settings if they are valid."""
        try:
            settings = self._read(config_map)
            settings.check_default_locations(self._default_locations())
        except SettingsError as error:
            log.error("Changed settings are invalid and ignored, the former stay in force", error=error)
            return
        if settings != self._current:
            self._current = settings
            _log_settings("Settings of self-service have changed", settings)
            for listener in self._listeners:
                listener()

    def _read(self, config_map: JSONObject | None) -> AdminSettings:
        flags = self._flags
        try:
            document = yaml.safe_load(text(config_map, "data", ENTRY))
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise SettingsError(f"{ENTRY} in config map {flags.config_map} is not YAML: {error}") from error
        settings = read_settings(document, velero_sync_period=flags.velero_sync_period)
        return settings.with_flags(
            require_approval=flags.require_approval,
            collection_period=flags.collection_period,
            sync_period=flags.sync_period,
            max_unfinished_backups=flags.max_unfinished_backups,
            max_unfinished_restores=flags.max_unfinished_restores,
            adopted_namespaces=flags.adopted_namespaces,
            allowed_endpoints=flags.allowed_endpoints,
        )


def _log_settings(event: str, settings: AdminSettings) -> None:
    log.info(
        event,
        requireApprovalForBSL=settings.require_approval,
        garbageCollectionPeriod=str(settings.collection_period),
        backupSyncPeriod=str(settings.sync_period),
        maxUnfinishedBackups=settings.max_unfinished_backups,
        maxUnfinishedRestores=settings.max_unfinished_restores,
        allowedEndpoints=", ".join(settings.allowed_endpoints),
        restorableResources=", ".join(settings.restorable_resources),
    )

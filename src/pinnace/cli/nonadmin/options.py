"""The options of the tenants' commands and of `nonadmin server`. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pinnace.cli.common.options import BackupContentOptions, RestoreContentOptions
from pinnace.cli.output.printing import OutputOptions
from pinnace.cli.structs import Struct

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


class RequestOptions(OutputOptions):
    """The options of every request of a tenant."""

    names: Sequence[str]
    labels: Mapping[str, str]


class TenantBackupOptions(BackupContentOptions, RequestOptions):
    """`nonadmin backup create`; `ttl` None leaves it to the administrator's default."""

    ttl: "Duration | None"


class TenantRestoreOptions(RestoreContentOptions, RequestOptions):
    """`nonadmin restore create`."""


class TenantLocationOptions(RequestOptions):
    """`nonadmin storage-location create`."""

    provider: str
    bucket: str
    prefix: str
    credential: Mapping[str, str]
    config: Mapping[str, str]
    backup_sync_period: "Duration | None"


class TenantDeleteOptions(Struct):
    """`nonadmin ... delete`; only backups have `--keep-data`."""

    names: Sequence[str]
    confirm: bool
    keep_data: bool = False


class UpstreamOptions(Struct):
    """Flags of the upstream manager that the command has only for scripts: `upstream_flags`."""

    metrics_secure: bool = False
    enable_http2: bool = False
    zap_devel: bool = False
    zap_encoder: str | None = None
    zap_log_level: str | None = None
    zap_stacktrace_level: str | None = None
    zap_time_encoding: str | None = None


class NonAdminServerFlags(UpstreamOptions):
    """`nonadmin server`; None leaves a setting to the config map, or to its default."""

    metrics_bind_address: str
    health_probe_bind_address: str
    leader_elect: bool
    config_map: str
    require_approval: bool | None
    garbage_collection_period: "Duration | None"
    backup_sync_period: "Duration | None"
    velero_backup_sync_period: "Duration | None"
    max_unfinished_backups: int | None
    max_unfinished_restores: int | None
    adopted_namespaces: Mapping[str, str]
    allowed_endpoints: Sequence[str]
    default_backup_storage_location: str

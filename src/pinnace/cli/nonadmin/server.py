"""`nonadmin server`: the flags of the self-service process. (docs/spec: NAC 2)"""

import os
from collections.abc import Iterable, Mapping, Sequence

import click

from pinnace.api.values.durations import Duration
from pinnace.cli.connect import need_no_location, settings_of
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, duration, flag, key_values, switch, text, tristate
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.declaring.types import Number
from pinnace.cli.declaring.values import ADDRESS, LOCATION, Value
from pinnace.cli.errors import InvalidInput
from pinnace.cli.nonadmin.upstream import UpstreamOptions, log_choice
from pinnace.cli.process.shared import check_address, process_errors, run_process
from pinnace.store_access.user_agent import user_agent


class ManagerOptions(Options):
    """The settings of the process; None leaves a setting to the config map, or to its default."""

    metrics_bind_address: str = text(default=":8080", value=ADDRESS, help="Address of /metrics.")
    health_probe_bind_address: str = text(
        default=":8081", value=ADDRESS, help="Address of /healthz and /readyz."
    )
    leader_elect: bool = switch(help="Work only while holding the Lease of this namespace.")
    config_map: str = text(
        "--settings",
        default="pinnace-nonadmin",
        value=Value("CONFIGMAP"),
        help="Config map of this namespace with the administrator's settings.",
    )
    require_approval: bool | None = tristate(
        help="Use storage locations of tenants only once they are approved."
    )
    garbage_collection_period: Duration | None = duration(
        help="How often to remove objects without a request; 0s for never. Default 24h."
    )
    backup_sync_period: Duration | None = duration(
        help="How often to make requests for stored backups; 0s for never. Default 2m."
    )
    velero_backup_sync_period: Duration | None = duration(
        help="What the backup server's --backup-sync-period is. Default 1m."
    )
    max_unfinished_backups: int | None = flag(
        type=Number(whole=True),
        help="How many backups of one namespace may wait or run at once; 0 is any number.",
    )
    max_unfinished_restores: int | None = flag(type=Number(whole=True), help="The same for restores.")
    adopted_namespaces: Mapping[str, str] = key_values(
        "--adopt-former-namespaces",
        value=Value("NAMESPACE=UID,..."),
        help="Give a namespace the backups of a former namespace of its name: name=uid; * is any.",
    )
    allowed_endpoints: Sequence[str] = flag(
        "--allow-endpoints",
        multiple=True,
        value=Value("ADDRESS", like=":8085"),
        help="Private network or host where tenants' storage may be; may be repeated.",
    )
    default_backup_storage_location: str = text(
        default="default", value=LOCATION, help="What the backup server's flag of this name says."
    )


class NonAdminServerFlags(ManagerOptions, UpstreamOptions):
    """`nonadmin server`."""


@command(
    "server",
    NonAdminServerFlags,
    short_help="Run the controllers of self-service.",
    examples=(
        ("Run the controllers in one namespace", "pinnace nonadmin server -n velero"),
        ("Check storage locations of tenants first", "pinnace nonadmin server -n velero --require-approval"),
        ("At most two backups of one tenant at once", "pinnace nonadmin server --max-unfinished-backups 2"),
    ),
)
def server(ctx: click.Context, flags: NonAdminServerFlags) -> None:
    """Run the controllers of self-service in the backup server's namespace, until a signal.

    The environment may say WATCH_NAMESPACE (the namespace), LOG_LEVEL (0 panic to 6 trace, or a name) and
    LOG_FORMAT (text or json). Flags win over the config map, the environment over flags that begin with zap.
    """
    from pinnace.nonadmin.settings.source import SettingsFlags
    from pinnace.runtime.logfields import get_logger
    from pinnace.server.monitoring.logging import configure_logging
    from pinnace.server.nonadmin import NonAdminServerOptions, run_nonadmin

    settings = settings_of(ctx)
    need_no_location(settings, "nonadmin server")
    check_address("--metrics-bind-address", flags.metrics_bind_address)
    check_address("--health-probe-bind-address", flags.health_probe_bind_address)
    options = NonAdminServerOptions(
        namespace=server_namespace(ctx.ensure_object(GlobalFlags), os.environ),
        metrics_address=flags.metrics_bind_address,
        health_address=flags.health_probe_bind_address,
        leader_election=flags.leader_elect,
        default_location=flags.default_backup_storage_location,
        settings=SettingsFlags(
            config_map=flags.config_map,
            require_approval=flags.require_approval,
            collection_period=flags.garbage_collection_period,
            sync_period=flags.backup_sync_period,
            velero_sync_period=flags.velero_backup_sync_period,
            max_unfinished_backups=flags.max_unfinished_backups,
            max_unfinished_restores=flags.max_unfinished_restores,
            adopted_namespaces=flags.adopted_namespaces or None,
            allowed_endpoints=_entries(flags.allowed_endpoints) or None,
        ),
    )
    choice = log_choice(os.environ, flags)
    configure_logging(choice.level, choice.fmt)
    for remark in choice.remarks:
        get_logger(__name__).warning(remark)
    with process_errors():
        agent = user_agent("pinnace-nonadmin")
        run_process(settings, lambda config: run_nonadmin(config, options, user_agent=agent))


def _entries(values: Iterable[str]) -> tuple[str, ...]:
    """The entries of a flag that may be repeated, each a list with commas."""
    return tuple(entry.strip() for value in values for entry in value.split(",") if entry.strip())


def server_namespace(flags: GlobalFlags, environ: Mapping[str, str]) -> str:
    """The backup server's namespace. Raises InvalidInput if neither flag nor environment has it."""
    namespace = flags.namespace or environ.get("WATCH_NAMESPACE") or environ.get("VELERO_NAMESPACE")
    if not namespace:
        raise InvalidInput(
            "the namespace of the backup server is missing: set WATCH_NAMESPACE or --namespace"
        )
    return namespace

"""`node-agent`, or `restic server`: the flags of the process on each node. (docs/spec: SRV 16, PVL 3)"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pinnace.cli.connect import need_no_location, settings_of
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import arguments, flag, text
from pinnace.cli.declaring.types import Number
from pinnace.cli.declaring.values import FOLDER
from pinnace.cli.errors import InvalidInput
from pinnace.cli.process import later_flags
from pinnace.cli.process.shared import (
    MonitoringOptions,
    at_least_one,
    check_address,
    process_errors,
    run_process,
    scratch_folder,
)
from pinnace.store_access.user_agent import user_agent

NODE_VARIABLE = "NODE_NAME"


class NodeAgentFlags(MonitoringOptions):
    """`node-agent` and `restic server`."""

    host_pods: str = text(
        default="/host_pods",
        value=FOLDER,
        help="Folder where the pods directory of the node's kubelet is mounted.",
    )
    backup_workers: int = flag(
        type=Number(whole=True), default="1", help="How many volumes are saved at once."
    )
    restore_workers: int = flag(
        type=Number(whole=True), default="1", help="How many volumes are restored at once."
    )
    node_agent_configmap: str = text(
        help="ConfigMap with settings; loadConcurrency there replaces the numbers of workers."
    )


class NamedNodeAgentFlags(NodeAgentFlags):
    """`node-agent server`, as manifests for Velero call it."""

    names: Sequence[str] = arguments("[server]", most=99)


@command(
    "node-agent",
    NamedNodeAgentFlags,
    short_help="Run the node agent (the DaemonSet does).",
    hidden=True,
    also=later_flags.accepted(later_flags.OF_NODE_AGENT),
    examples=(
        ("Run it on a node", "pinnace node-agent"),
        ("Save two volumes at once", "pinnace node-agent --backup-workers 2"),
        ("With a log in JSON", "pinnace node-agent --log-format json"),
    ),
)
def node_agent(ctx: click.Context, flags: NamedNodeAgentFlags) -> None:
    """Run the node agent: it saves and restores the volumes of the pods of its node, until a signal.

    The environment has the name of the node (NODE_NAME), the namespace of the server (VELERO_NAMESPACE), and
    the folder for the cache of restic (VELERO_SCRATCH_DIR). `node-agent server` is the same.
    """
    if flags.names not in ((), ("server",)):
        raise click.UsageError(f'unknown command "{" ".join(flags.names)}"')
    _serve(ctx, flags)


@command(
    "server",
    NodeAgentFlags,
    short_help="",
    hidden=True,
    also=later_flags.accepted(later_flags.OF_NODE_AGENT),
)
def server(ctx: click.Context, flags: NodeAgentFlags) -> None:
    """Run the node agent; the same as `node-agent`, which explains it."""
    _serve(ctx, flags)


def _serve(ctx: click.Context, flags: NodeAgentFlags) -> None:
    from pinnace.runtime.logfields import get_logger
    from pinnace.server.checks import StartupError
    from pinnace.server.monitoring.logging import configure_logging
    from pinnace.server.node_agent import NodeAgentOptions, run_node_agent

    settings = settings_of(ctx)
    need_no_location(settings, "the node agent")
    check_address("--metrics-address", flags.metrics_address)
    options = NodeAgentOptions(
        namespace=settings.namespace,
        node=node_name(os.environ),
        pods_directory=Path(flags.host_pods),
        metrics_address=flags.metrics_address,
        backup_workers=at_least_one("--backup-workers", flags.backup_workers),
        restore_workers=at_least_one("--restore-workers", flags.restore_workers),
        config_map=flags.node_agent_configmap,
        scratch=scratch_folder(),
    )
    configure_logging(flags.log_level, flags.log_format)
    for warning in later_flags.caveats(ctx):
        get_logger(__name__).warning(warning)
    with process_errors(StartupError):
        agent = user_agent("velero-restic-server")
        run_process(settings, lambda config: run_node_agent(config, options, user_agent=agent))


def node_name(environ: Mapping[str, str]) -> str:
    """The name of this agent's node. Raises InvalidInput."""
    name = environ.get(NODE_VARIABLE, "")
    if not name:
        raise InvalidInput(
            f"the environment variable {NODE_VARIABLE} is missing: it must have the name of the agent's node "
            "(in a pod: fieldRef spec.nodeName)"
        )
    return name

"""`repo-maintenance`: the program of the Jobs that maintain repositories. (docs/spec: BEY 6.3)"""

import asyncio
import os
from pathlib import Path

import click

from pinnace.aio.gc_thresholds import collect_as_usual
from pinnace.api.values.error_texts import error_text
from pinnace.cli.connect import need_no_location, settings_of
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import flag
from pinnace.cli.errors import CommandError
from pinnace.cli.process.shared import LoggingFlags
from pinnace.store_access.user_agent import user_agent


class RepoMaintenanceFlags(LoggingFlags):
    """The flags of `repo-maintenance`."""

    repository: str = flag(required=True, help="The BackupRepository.")


@command("repo-maintenance", RepoMaintenanceFlags, short_help="", hidden=True)
def repo_maintenance(ctx: click.Context, flags: RepoMaintenanceFlags) -> int:
    """Maintain the repository of a BackupRepository once; run by the Jobs that the server creates."""
    from pinnace.kube.config import load_config
    from pinnace.kube.errors import KubeError
    from pinnace.server.monitoring.logging import configure_logging
    from pinnace.server.repository_maintenance import run_maintenance

    settings = settings_of(ctx)
    need_no_location(settings, "repo-maintenance")
    configure_logging(flags.log_level, flags.log_format)
    scratch = os.environ.get("VELERO_SCRATCH_DIR")
    try:
        config = load_config(
            settings.kubeconfig, settings.kubecontext, patience_seconds=settings.api_timeout_seconds
        )
        collect_as_usual()
        return asyncio.run(
            run_maintenance(
                config,
                settings.namespace,
                flags.repository,
                scratch=Path(scratch) if scratch else None,
                user_agent=user_agent("velero-repo-maintenance"),
            )
        )
    except (KubeError, OSError) as error:
        raise CommandError(error_text(error)) from error

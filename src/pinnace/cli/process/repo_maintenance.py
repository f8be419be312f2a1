"""`repo-maintenance`: the program of the Jobs that maintain repositories. (docs/spec: BEY 6.3)"""

import click

from pinnace.api.values.error_texts import error_text
from pinnace.cli.connect import need_no_location, settings_of
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import flag
from pinnace.cli.errors import CommandError
from pinnace.cli.process.shared import LoggingFlags, run_process, scratch_folder
from pinnace.store_access.user_agent import user_agent


class RepoMaintenanceFlags(LoggingFlags):
    """The flags of `repo-maintenance`."""

    repository: str = flag(required=True, help="The BackupRepository.")


@command("repo-maintenance", RepoMaintenanceFlags, short_help="", hidden=True)
def repo_maintenance(ctx: click.Context, flags: RepoMaintenanceFlags) -> int:
    """Maintain the repository of a BackupRepository once; run by the Jobs that the server creates."""
    from pinnace.kube.errors import KubeError
    from pinnace.server.monitoring.logging import configure_logging
    from pinnace.server.repository_maintenance import run_maintenance

    settings = settings_of(ctx)
    need_no_location(settings, "repo-maintenance")
    configure_logging(flags.log_level, flags.log_format)
    try:
        return run_process(
            settings,
            lambda config: run_maintenance(
                config,
                settings.namespace,
                flags.repository,
                scratch=scratch_folder(),
                user_agent=user_agent("velero-repo-maintenance"),
            ),
        )
    except (KubeError, OSError) as error:
        raise CommandError(error_text(error)) from error

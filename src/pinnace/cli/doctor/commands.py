"""`doctor`."""

import click

from pinnace.cli.flags import Command, comma_list
from pinnace.cli.output.printing import data_format


@click.command("doctor", cls=Command, short_help="Check what backups and restores need.")
@comma_list("--include-namespaces", help="Check the rights for these namespaces only; default all.")
@data_format
@click.pass_context
def command(ctx: click.Context, /, include_namespaces: list[str] | None, output_format: str | None) -> int:
    """Check everything that backups and restores need, and say how to mend what is wrong.

    Checked are kubeconfig and credentials, rights, clocks, CSI drivers, and locations by writing, reading and
    deleting a small file. With a server also its definitions, the server and its leader, node agents,
    repositories and schedules. Beside that file, the only thing written is a ServerStatusRequest, which the
    server removes.

    The exit code is 0 if there is no problem (warnings are none). It is 1 if there is one, or if nothing
    about the server (with --location: the cluster) could be checked for lack of rights.
    """
    from pinnace.cli.doctor.report import report

    return report(ctx, include_namespaces or [], output_format)

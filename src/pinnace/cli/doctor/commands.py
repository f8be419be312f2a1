"""`doctor`."""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Section, comma_list
from pinnace.cli.declaring.values import NAMESPACES
from pinnace.cli.output.printing import DataOptions


class DoctorOptions(DataOptions):
    """`doctor`."""

    include_namespaces: Sequence[str] = comma_list(
        section=Section.WHAT,
        value=NAMESPACES,
        help="Check the rights for these namespaces only; default all.",
    )


@command(
    "doctor",
    DoctorOptions,
    short_help="Check what backups and restores need.",
    examples=(
        ("Check server, locations and cluster", "pinnace doctor"),
        ("Without a server", "pinnace --location ./backups doctor"),
        ("For one namespace, for a program", "pinnace doctor --include-namespaces shop -o json"),
    ),
)
def doctor(ctx: click.Context, options: DoctorOptions) -> int:
    """Check everything that backups and restores need, and say how to fix what is wrong.

    Checked are kubeconfig and credentials, rights, clocks, CSI drivers, and locations by writing, reading and
    deleting a small file. With a server also its definitions, the server and its leader, node agents,
    repositories and schedules. Beside that file, the only thing written is a ServerStatusRequest, which the
    server removes.

    The exit code is 0 if there is no problem (warnings are none). It is 1 if there is one, or if nothing
    about the server (with --location: the cluster) could be checked for lack of rights.
    """
    from pinnace.cli.doctor.report import report

    return report(ctx, options.include_namespaces, options.output_format)

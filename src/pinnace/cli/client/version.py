"""`version`. (docs/spec: CLI 8.2)"""

from typing import TYPE_CHECKING, NamedTuple

import click

from pinnace._version import __version__
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import flag, switch
from pinnace.cli.declaring.types import WaitFlag
from pinnace.cli.output.printing import DataOptions, encode

if TYPE_CHECKING:
    from pinnace.cli.settings import Settings


class VersionOptions(DataOptions):
    """`version`."""

    client_only: bool = switch(help="Do not ask the server.")
    timeout: Duration = flag(type=WaitFlag(), default="5s", help="How long to wait for the server.")


@command(
    "version",
    VersionOptions,
    short_help="Print the version of the client and of the server.",
    examples=(
        ("Of the client and the server", "pinnace version"),
        ("Only of the client", "pinnace version --client-only"),
        ("For a program", "pinnace version -o json"),
    ),
)
def version(ctx: click.Context, options: VersionOptions) -> None:
    """Print the version of the client and, through a ServerStatusRequest, of the server."""
    client, server = f"v{__version__}", None
    if not options.client_only:
        from pinnace.cli.connect import run_async, settings_of

        settings = settings_of(ctx)
        # Asked first: without a cluster only the error is printed. With a location there is no server to ask.
        if settings.location is None:
            server = run_async(_server_version(settings, options.timeout.total_seconds()))
    form = options.output_format
    click.echo("\n".join(_lines(client, server)) if form is None else _data(client, server, form))


class ReportedVersion(NamedTuple):
    """The version of the server, or why it is not known."""

    version: str = ""
    error: str = ""
    is_ours: bool = False


def _lines(client: str, server: ReportedVersion | None) -> list[str]:
    lines = [f"Client:\n\tVersion: {client}\n\tGit commit: -"]
    if server is None:
        return lines
    if server.error:
        return [*lines, f"<error getting server version: {server.error}>"]
    lines.append(f"Server:\n\tVersion: {server.version}")
    # The versions of two programs have nothing to do with each other.
    return [*lines, *_mismatch(client, server.version)] if server.is_ours else lines


def _data(client: str, server: ReportedVersion | None, form: str) -> str:
    """The versions as kubectl prints them; an unknown version of the server as the error."""
    found: JSONObject = {"clientVersion": {"version": client}}
    if server is not None:
        found["serverVersion"] = {"error": server.error} if server.error else {"version": server.version}
    return encode(found, form).rstrip("\n")


async def _server_version(settings: "Settings", timeout_seconds: float) -> ReportedVersion:
    """Ask the server. Raises KubeError when there is no cluster to ask."""
    from pinnace.cli.connect import no_kinds, open_cluster
    from pinnace.client.server_status import answered, ask_server, is_ours
    from pinnace.kube.errors import APIStatusError

    async with open_cluster(settings) as client:
        try:
            answer = await ask_server(client, settings.namespace, timeout_seconds)
        except APIStatusError as error:
            # Without a reason the API server knows nothing of the kind. (docs/spec: CLI-033)
            return ReportedVersion(error=str(error) if error.reason else no_kinds())
    if not answered(answer):
        return ReportedVersion(error="timed out waiting for the server to answer")
    return ReportedVersion(str(answer["status"].get("serverVersion") or ""), is_ours=is_ours(answer))


def _mismatch(client: str, server: str) -> list[str]:
    """The warning when major.minor differ. (docs/spec: CLI 8.2)"""
    from pinnace.client.server_status import older_side

    if not (older := older_side(client, server)):
        return []
    return [f"# WARNING: the client version does not match the server version. Please update {older}"]

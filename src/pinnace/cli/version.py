"""`version`. (docs/spec: CLI 8.2)"""

from typing import Any

import click

from pinnace import __version__
from pinnace.cli.flags import Command, DurationFlag, boolean


@click.command("version", cls=Command, short_help="Print the version of the client and of the server.")
@boolean("--client-only", help="Do not ask the server.")
@click.option(
    "--timeout", type=DurationFlag(), default="5s", show_default=True, help="How long to wait for the server."
)
@click.pass_context
def command(ctx: click.Context, /, client_only: bool, timeout: Any) -> None:
    """Print the version of the client and, through a ServerStatusRequest, of the server."""
    lines = [f"Client:\n\tVersion: v{__version__}\n\tGit commit: -"]
    if not client_only:
        from pinnace.cli.connect import run_async, settings_of

        settings = settings_of(ctx)
        # Asked first: without a cluster only the error is printed. Without a server there is nobody to ask.
        if settings.location is None:
            lines += run_async(_server_lines(settings, timeout.total_seconds()))
    click.echo("\n".join(lines))


async def _server_lines(settings: Any, timeout_seconds: float) -> list[str]:
    """The server's version, or why it cannot be had. Raises KubeError when there is no cluster to ask."""
    from pinnace.cli.connect import no_kinds, open_cluster
    from pinnace.cli.server_status import answered, ask_server
    from pinnace.kube.errors import APIStatusError

    async with open_cluster(settings) as client:
        try:
            answer = await ask_server(client, settings.namespace, timeout_seconds)
        except APIStatusError as exc:
            # Without a reason the API server knows nothing of the kind. (docs/spec: CLI-033)
            return [f"<error getting server version: {exc if exc.reason else no_kinds()}>"]
    if not answered(answer):
        return ["<error getting server version: timed out waiting for the server to answer>"]
    version = str(answer["status"].get("serverVersion") or "")
    return [f"Server:\n\tVersion: {version}", *mismatch(f"v{__version__}", version)]


def mismatch(client: str, server: str) -> list[str]:
    """The warning when major.minor differ: the older side is to be updated. (docs/spec: CLI 8.2)"""
    ours, theirs = (_major_minor(text) for text in (client, server))
    if ours == theirs:
        return []
    older = "server" if ours > theirs else "client"
    return [f"# WARNING: the client version does not match the server version. Please update {older}"]


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.lstrip("v").split(".")[:2] if part.isdigit())

"""The work of `notify test`."""

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.cli.common.telling import messages_of
from pinnace.cli.connect import open_cluster, run_async, settings_of
from pinnace.cli.errors import CommandError, ExitCode, InvalidInput
from pinnace.cli.guard import printable
from pinnace.cli.notify.commands import NotifyTestOptions
from pinnace.cli.output.printing import encode
from pinnace.cli.settings import Settings
from pinnace.kube.resources import SECRETS
from pinnace.messages.errors import MessageSettingsError
from pinnace.messages.once import tell_once
from pinnace.messages.problem import trial
from pinnace.messages.settings import MessageSettings, SinkSettings, document_of, parse_messages


def test(ctx: click.Context, options: NotifyTestOptions) -> int:
    """Send a test message. Returns the exit code."""
    results = run_async(_test(settings_of(ctx), options))
    if options.output_format is not None:
        printed = [{"sink": name, "sent": not error, "error": error} for name, error in results.items()]
        click.echo(encode(printed, options.output_format).rstrip("\n"))
    else:
        for name, error in results.items():
            click.echo(printable(f"{name}: {f'not sent: {error}' if error else 'sent'}"))
    return ExitCode.ERROR if any(results.values()) else ExitCode.OK


test.__test__ = False  # type: ignore[attr-defined]


async def _test(settings: Settings, options: NotifyTestOptions) -> dict[str, str]:
    found = messages_of(options.messages_file) if options.messages_file else await _of_server(settings)
    sinks = {each.name: each for each in found.sinks} if found is not None else {}
    if not sinks:
        raise CommandError(
            f"there are no sinks: no Secret in namespace {settings.namespace} has the label "
            f"{labels.MESSAGES}=true and a sink"
        )
    if missing := [name for name in options.names if name not in sinks]:
        raise InvalidInput(f"there is no sink {missing[0]}; there are {', '.join(sorted(sinks))}")
    assert found is not None
    chosen = [each for each in found.sinks if not options.names or each.name in options.names]
    message = trial(found.cluster or "unnamed cluster", SYSTEM_CLOCK.now().timestamp())
    return await tell_once(chosen, message, tries=1)


async def _of_server(settings: Settings) -> MessageSettings:
    async with open_cluster(settings) as client:
        secrets = await client.list_all(SECRETS, settings.namespace, label_selector=f"{labels.MESSAGES}=true")
    sinks: list[SinkSettings] = []
    cluster = ""
    for secret in secrets:
        try:
            read = parse_messages(document_of(secret))
        except MessageSettingsError as error:
            raise CommandError(f"Secret {secret['metadata']['name']}: {error}") from error
        sinks += read.sinks
        cluster = cluster or read.cluster
    return MessageSettings(sinks=tuple(sinks), cluster=cluster)

"""Asking every program of the plugin directory what it contains, once, at the start. (docs/spec: PLG 2)"""

from pathlib import Path

from pinnace.plugins.errors import PluginError, PluginNameError, PluginStartError
from pinnace.plugins.host.directory import find_programs
from pinnace.plugins.host.handshake import plugin_arguments
from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.host.output import PluginLog
from pinnace.plugins.host.process import PluginProcess
from pinnace.plugins.kinds import FoundPlugin, PluginId, PluginKind, check_name
from pinnace.plugins.logs import LogSink
from pinnace.plugins.protocol.methods import LIST_PLUGINS
from pinnace.plugins.protocol.velero_pb2 import Empty


async def discover(directory: Path, options: LaunchOptions, sink: LogSink) -> list[FoundPlugin]:
    """The plugins of all programs, by program and then as each lists them.

    Kinds of later releases are left out with a warning, so that a program may offer more than we know.

    Raises:
        PluginError: a program is no plugin, did not answer, or has a plugin with a wrong name.
    """
    found: list[FoundPlugin] = []
    for program in find_programs(directory):
        found += await list_plugins(program, options, sink)
    return found


async def list_plugins(program: Path, options: LaunchOptions, sink: LogSink) -> list[FoundPlugin]:
    """The plugins of one program. Raises PluginError."""
    log = PluginLog(program, lambda: sink)
    process = await PluginProcess.start(
        program,
        plugin_arguments(log_level=options.log_level, features=options.features),
        log,
        environ=options.environ,
        limits=options.limits,
    )
    try:
        answer = await process.connection.unary(
            str(program), LIST_PLUGINS, Empty(), options.deadlines.question
        )
    except PluginError as error:
        raise PluginStartError(f"cannot list the plugins of {program}: {error}") from error
    finally:
        await process.stop()
    kinds = {kind.value for kind in PluginKind}
    found = []
    for listed in answer.plugins:
        if listed.kind not in kinds:
            log.own("warning", f"{listed.name} is left out: invalid plugin kind: {listed.kind}")
            continue
        try:
            check_name(listed.name)
        except PluginNameError as error:
            raise PluginStartError(f"{program}: {error}") from error
        found.append(FoundPlugin(plugin=PluginId(PluginKind(listed.kind), listed.name), program=program))
    return found

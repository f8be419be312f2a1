"""Opens the cluster that a command works on, and runs the command's coroutine to its end."""

import asyncio
import signal
import traceback
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pinnace.api.values.error_texts import cause_of
from pinnace.api.values.shell_words import joined, with_commands
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.errors import OPENED_BY, CommandError, InvalidInput
from pinnace.cli.guard import complain, silence_loggers, traced_requests
from pinnace.cli.settings import Settings, given_words, resolve_settings
from pinnace.client.errors import ClientError, InvalidArgument
from pinnace.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from pinnace.storage.errors import StorageError
from pinnace.store_access.user_agent import user_agent

if TYPE_CHECKING:
    from pinnace.client.caller import Caller
    from pinnace.kube.client import KubeClient
    from pinnace.kube.transport.config import ClusterConfig

T = TypeVar("T")


def no_kinds() -> str:
    """The message for a 404 without a Status: the cluster does not serve the kind."""
    context = click.get_current_context(silent=True)
    if context is not None and "nonadmin" in context.command_path.split():
        return (
            "the cluster does not serve the kinds of self-service: an administrator installs them with "
            f"--non-admin (`{program_name()} install --help`)"
        )
    return (
        "the cluster does not serve the custom resources of the server: install it "
        f"(`{program_name()} install --help`), or work without a server with --location"
    )


def program_name() -> str:
    """The name that the user called the program by, for commands that messages suggest."""
    context = click.get_current_context(silent=True)
    return (context.find_root().info_name if context is not None else None) or "pinnace"


def command_line(settings: Settings, *words: str) -> str:
    """A command for the user to paste into the shell, with the flags that make it find the same objects."""
    return joined(program_name(), [*words], [*settings.given])


def pasteable(text: str) -> str:
    """The text with its commands completed by the program and the flags that find the same objects."""
    context = click.get_current_context(silent=True)
    flags = context.find_object(GlobalFlags) if context is not None else None
    given = given_words(flags) if flags is not None else ()

    def completed(words: str) -> str:
        import shlex  # few messages name a command

        return joined(program_name(), shlex.split(words), [*given])

    return with_commands(text, completed)


def caller() -> "Caller":
    """The running command, as messages of `pinnace.client` name it."""
    from pinnace.client.caller import Caller

    return Caller(
        program=program_name(), pasteable=pasteable, warn=complain, longer=_longer(), namespaces=_namespaces()
    )


def _longer() -> str:
    """The advice to wait longer, if the running command has a flag for that."""
    return " (--timeout gives it longer)" if _has_flag("--timeout") else ""


def _namespaces() -> str:
    """What -n means, where the running command has another flag for the namespaces of its objects."""
    context = click.get_current_context(silent=True)
    flags = context.find_object(GlobalFlags) if context is not None else None
    if flags is None or not flags.namespace or not _has_flag("--include-namespaces"):
        return ""
    return "-n is the server's namespace; --include-namespaces chooses those of the objects"


def _has_flag(flag: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and any(flag in each.opts for each in context.command.params)


_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NOTICE_SECONDS = 1.0
_NOTICE = "Removing what is unfinished, please wait."


def settings_of(ctx: click.Context) -> Settings:
    """The settings by global flags, config file and environment."""
    return resolve_settings(ctx.ensure_object(GlobalFlags))


def run_async(work: Coroutine[Any, Any, T], *, interrupted: str = "") -> T:
    """Run a command's coroutine, and turn errors of lower layers into messages for the user.

    The first SIGINT, SIGTERM or SIGHUP (the terminal has gone; not with nohup) cancels the work, which cleans
    up after itself. A second one does not cut the clean-up short: it has deadlines of its own, and a notice
    is printed when it takes long. Then KeyboardInterrupt is raised.

    Args:
        interrupted: a text to print after that, about what is left and what goes on.
    """

    done: list[T] = []

    async def guarded() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        ending = False

        def end() -> None:
            nonlocal ending
            if not ending:
                ending = True
                task.cancel()
                loop.call_later(_NOTICE_SECONDS, complain, _NOTICE)

        no_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signals = [one for one in _ENDING_SIGNALS if not (no_hangup and one is signal.SIGHUP)]
        for signum in signals:
            loop.add_signal_handler(signum, end)
        try:
            done.append(await work)
        finally:
            for signum in signals:
                loop.remove_signal_handler(signum)

    silence_loggers()
    context = click.get_current_context(silent=True)
    flags = context.find_object(GlobalFlags) if context is not None else None
    try:
        with traced_requests((flags and flags.verbosity) or 0):
            asyncio.run(guarded())
    except asyncio.CancelledError:
        if interrupted:
            complain(interrupted)
        raise KeyboardInterrupt from None
    except (KeyboardInterrupt, SystemExit) as error:
        if place := _foreign_place(error):
            raise CommandError(
                f"this process ends, as {type(error).__name__} was raised at {place}, in a task that nothing"
                " of Pinnace awaits. A plugin that runs in this process may have started it; run the plugin"
                " as a program, and its end is one failed call"
            ) from error
        raise
    except Exception as error:  # an error in a group is handled like a single one; others are raised
        if done:
            return done[
                0
            ]  # the work has ended; only the loop could not end as usual, as no thread could be started
        cause = cause_of(error)
        if isinstance(cause, asyncio.CancelledError):
            if interrupted:
                complain(interrupted)
            raise KeyboardInterrupt from None
        if isinstance(cause, NotFound) and not cause.reason:
            raise CommandError(f"{no_kinds()} ({cause})") from error
        if isinstance(cause, ClientError):
            wrong = isinstance(cause, InvalidArgument)
            raise (InvalidInput if wrong else CommandError)(str(cause)) from error
        if isinstance(cause, KubeError | StorageError):
            raise CommandError(f"{cause}{_advice(cause)}") from error
        from pinnace.installing.errors import InstallError  # few commands can raise it

        if isinstance(cause, InstallError):
            raise CommandError(str(cause)) from error
        if cause is error:
            raise
        raise cause from error
    finally:
        work.close()  # if no loop could be started, it was never awaited
    return done[0]


def _foreign_place(error: BaseException) -> str:
    """The place in the code that raised the error itself; empty for the interruption that asyncio raises."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    file = Path(frame.f_code.co_filename)
    return "" if file.parent == Path(asyncio.__file__).parent else f"{file}:{line}"


def _advice(error: KubeError | StorageError) -> str:
    """The advice to append to the message of an error; empty if there is none."""
    if isinstance(error, AlreadyExists):
        return ": choose another name, or delete the existing object first"
    if isinstance(error, NotFound) and str(error).startswith("namespaces "):
        return f": name another namespace with -n, or install a server (`{program_name()} install --help`)"
    if isinstance(error, Forbidden) and ".velero.io" in str(error) and _is_for_tenants():
        return (
            ". If an administrator has set up self-service, backups and restores of your own namespaces are"
            f" made by `{program_name()} nonadmin`"
        )
    if isinstance(error, Forbidden) and "nonadmin" in _words():
        return (
            ". That needs the role `edit` in the namespace (-n), and self-service, which an administrator"
            f" sets up by `{program_name()} install --non-admin`"
        )
    if isinstance(error, StorageError):
        from pinnace.storage.key_errors import IdentityMissing  # loads what few commands need

        return OPENED_BY if isinstance(error, IdentityMissing) else ""
    return ""


def _is_for_tenants() -> bool:
    """Whether the command is one that self-service has, too."""
    words = _words()
    return "nonadmin" not in words and not {"backup", "restore"}.isdisjoint(words)


def _words() -> list[str]:
    """The words of the running command, without the program's name."""
    context = click.get_current_context(silent=True)
    return context.command_path.split()[1:] if context is not None else []


def cluster_of(settings: Settings) -> "ClusterConfig":
    """How to connect to the cluster that the settings name. Raises ConfigError if they name none."""
    from pinnace.kube.config import load_config

    patience_seconds = settings.api_timeout_seconds
    return load_config(settings.kubeconfig, settings.kubecontext, patience_seconds=patience_seconds)


@asynccontextmanager
async def open_cluster(settings: Settings) -> AsyncIterator["KubeClient"]:
    """A client for the cluster that the settings name. Raises ConfigError if they name none."""
    # Loaded here: the commands that read a location need no HTTP library, which takes longer than they do.
    from pinnace.cli.progress.away import saying_when_away
    from pinnace.kube.client import KubeClient

    async with (
        KubeClient(cluster_of(settings), user_agent=user_agent(program_name())) as client,
        saying_when_away(client),
    ):
        yield client


def need_no_location(settings: Settings, command: str) -> None:
    """Refuse `--location` where it has no meaning rather than ignore it. Raises InvalidInput."""
    if settings.location is not None:
        raise InvalidInput(
            f"`{command}` works on a server in the cluster; leave out --location and PINNACE_LOCATION"
        )

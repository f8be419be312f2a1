"""The program: the tree of its commands, and what happens when one fails. (docs/spec: CLI 1.7, 3)

Importing this module pulls in click and nothing else of weight; each command's module is loaded when it
is called.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pinnace.api.values.error_texts import NO_MORE_THREADS, cause_of, error_text
from pinnace.cli.declaring.commands import Group
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.errors import CommandError, ExitCode, InvalidInput
from pinnace.cli.guard import (
    TRACEBACK_VARIABLE,
    complain,
    discard,
    flush_output,
    guarded_terminal,
    shows_tracebacks,
    silence_the_interpreter,
)
from pinnace.cli.settings import given_words, location_of
from pinnace.cli.words import location_in, with_short_words

HELP = """Back up, restore and migrate Kubernetes clusters.

Pinnace works in two ways. With a server in the cluster its commands write and read custom resources and
the server does the work. With --location URL (or PINNACE_LOCATION) the command itself does the work against
the current kubeconfig and keeps the backups in that location; nothing is installed in the cluster.

\b
First backup:   pinnace --location ./backups backup create my-first
And back again: pinnace --location ./backups restore create --from-backup my-first
"""

cli = Group(
    name="pinnace",
    help=HELP,
    has_nouns=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    lazy={
        "backup": "pinnace.cli.backup.commands:group",
        "restore": "pinnace.cli.restore.commands:group",
        "schedule": "pinnace.cli.schedule.commands:group",
        "backup-location": "pinnace.cli.location.backup_commands:group",
        "snapshot-location": "pinnace.cli.location.snapshot_commands:group",
        "plugin": "pinnace.cli.plugin.commands:group",
        "repo": "pinnace.cli.process.restic:repo",
        "restic": "pinnace.cli.process.restic:group",
        "nonadmin": "pinnace.cli.nonadmin.commands:group",
        "history": "pinnace.cli.browse.history:history",
        "create": "pinnace.cli.verbs:create",
        "get": "pinnace.cli.verbs:get",
        "describe": "pinnace.cli.verbs:describe",
        "delete": "pinnace.cli.verbs:delete",
        "install": "pinnace.cli.install.install:install",
        "uninstall": "pinnace.cli.install.uninstall:uninstall",
        "client": "pinnace.cli.client.commands:group",
        "completion": "pinnace.cli.client.completion:completion",
        "version": "pinnace.cli.client.version:version",
        "help": "pinnace.cli.client.help:help_",
        "explain": "pinnace.cli.client.explain:explain",
        "man": "pinnace.cli.client.man:man",
        "notify": "pinnace.cli.notify.commands:group",
        "doctor": "pinnace.cli.doctor.commands:doctor",
        "bug": "pinnace.cli.debug.commands:bug",
        "debug": "pinnace.cli.debug.commands:debug",
        "server": "pinnace.cli.process.server:server",
        "node-agent": "pinnace.cli.process.node_agent:node_agent",
        "restore-helper": "pinnace.cli.process.restore_helper:restore_helper",
        "repo-maintenance": "pinnace.cli.process.repo_maintenance:repo_maintenance",
        "hold-volume": "pinnace.cli.process.hold_volume:hold_volume",
        "compare-files": "pinnace.cli.process.compare_files:compare_files",
    },
)


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from pinnace._version import __version__

        print(f"pinnace v{__version__}")
        ctx.exit()


cli.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Print the version of the client.",
    )
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; errors are printed on stderr, never as a traceback."""
    if arguments is None:
        silence_the_interpreter()
    with guarded_terminal():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    program = _called_by(arguments)
    try:
        _escape_unencodable()
        result = _call(words, program)
    except click.UsageError as error:
        return _usage_error(error, words)
    except CommandError as error:
        if str(error):
            complain(with_short_words(f"{error.prefix}{error}"))
            _show_traceback(error)
        wrong = isinstance(error, InvalidInput)
        return ExitCode.ERROR if wrong and not _without_server(words) else error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard(sys.stdout)
        return ExitCode.ERROR
    except (OSError, MemoryError) as error:
        return _refused_by_the_system(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: users get no tracebacks
        return _defect(error, program)
    return result


def _call(words: Sequence[str], program: str) -> int:
    """Run the command and write its output. Returns the exit code."""
    try:
        result = cli.main([*words], prog_name=program, standalone_mode=False, obj=GlobalFlags())
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.ctx.get_help() if error.ctx else cli.get_help(click.Context(cli)))
        result = ExitCode.OK
    flush_output()
    return result if isinstance(result, int) else ExitCode.OK


def _called_by(arguments: Sequence[str] | None) -> str:
    """The name that the user called, for usage texts and hints: called as `velero`, it is `velero`."""
    name = Path(sys.argv[0]).name if arguments is None else ""
    return "pinnace" if name in ("", "main.py", "__main__.py") else name


def _escape_unencodable() -> None:
    """Let a terminal or pipe with a small character set get an escape instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _defect(error: Exception, program: str) -> int:
    """Report an unexpected error, and how to find out more about it."""
    from pinnace.messages.redaction import redact_text

    cause = cause_of(error)
    if isinstance(cause, OSError | MemoryError) or _reports_a_limit(cause):
        return _refused_by_the_system(cause)
    _show_traceback(error)
    text = " ".join(redact_text(str(cause)).split())
    complain(
        f"An error occurred: this should not happen: {type(cause).__name__}: {text}\n"
        f"Please report it: `{program} bug` prints the text to fill in, and with {TRACEBACK_VARIABLE}=1 in "
        "the environment this command says where it was."
    )
    return ExitCode.ERROR


def _reports_a_limit(error: BaseException) -> bool:
    """Whether a library's error is about memory, threads or descriptors that have run out."""
    return isinstance(error, RuntimeError | ImportError) and any(
        sign in str(error) for sign in ("can't start new thread", "failed to map", "cannot allocate memory")
    )


def _refused_by_the_system(error: BaseException) -> int:
    """Report what the operating system refused: a file, memory, a thread."""
    text = error_text(error)
    if isinstance(error, MemoryError):
        text = "out of memory"
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_folder():
        text = "the current folder does not exist any more; change to another one (cd)"
    limits = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
    if text != NO_MORE_THREADS and (not isinstance(error, OSError) or error.errno in limits):
        text += "; the limits of this process are too low for this command (see `ulimit -a`)"
    complain(f"An error occurred: {text}")
    _show_traceback(error)
    return ExitCode.ERROR


def _has_folder() -> bool:
    """Whether the folder that relative paths begin at still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _show_traceback(error: BaseException) -> None:
    if shows_tracebacks():
        import traceback

        traceback.print_exception(error)


def _without_server(words: Sequence[str]) -> bool:
    """Whether the command works without a server; by its words, which may be wrong before `--location`."""
    return location_of(GlobalFlags(location=location_in(words)), os.environ) is not None


def _usage_error(error: click.UsageError, words: Sequence[str]) -> int:
    """Report a wrong flag or argument in one line, and name the command that explains the right ones."""
    complain(f"An error occurred: {with_short_words(_wording(error, words))}")
    if error.ctx is not None:
        complain(f"Run `{error.ctx.command_path} --help` for usage.")
    like_diff = error.ctx is not None and getattr(error.ctx.command, "exits_like_diff", False)
    return ExitCode.INVALID_INPUT if like_diff or _without_server(words) else ExitCode.ERROR


def _wording(error: click.UsageError, words: Sequence[str]) -> str:
    """The compatible text of a parse error, and what was probably meant."""
    if isinstance(error, click.NoSuchCommand):
        name = error.ctx.command_path if error.ctx else "pinnace"
        return f'unknown command "{error.command_name}" for "{name}"{_command_meant(error, words)}'
    if isinstance(error, click.NoSuchOption):
        flag = error.option_name
        if flag.startswith("--"):
            return f"unknown flag: {flag}{_flag_meant(error)}"
        return f"unknown shorthand flag: {_letter(flag, words)}{_flag_meant(error)}"
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        long = error.option_name.startswith("--")
        return f"flag needs an argument: {error.option_name if long else _letter(error.option_name, words)}"
    return error.format_message()


def _command_meant(error: click.NoSuchCommand, words: Sequence[str]) -> str:
    """The command to write instead of an unknown one; empty if nothing is near."""
    if error.ctx is None or not isinstance(error.ctx.command, Group):
        return ""
    from pinnace.api.values.shell_words import joined
    from pinnace.cli.usage.mistaken import instead_of_command

    program, *path = error.ctx.command_path.split()
    word, flags = error.command_name, error.ctx.find_object(GlobalFlags)
    given = given_words(flags) if flags is not None else ()
    at = words.index(word) if word in words else len(words)
    commands = error.ctx.command.shown_commands(error.ctx)
    return instead_of_command(
        path,
        word,
        words[at + 1 :],
        commands,
        lambda found: joined(program, [*found], [*given]),
        _groups_with(word, error.ctx),
    )


def _groups_with(word: str, ctx: click.Context) -> list[list[str]]:
    """The groups that have a command of a name: the program itself, and those of the usual nouns."""
    found = [] if word not in cli.list_commands(ctx) else [list[str]()]
    for noun in ("backup", "restore", "schedule"):
        group = cli.get_command(ctx, noun)
        if isinstance(group, Group) and word in group.list_commands(ctx):
            found.append([noun])
    return found


def _flag_meant(error: click.NoSuchOption) -> str:
    """The flag to write instead of an unknown one; empty if nothing is near."""
    if error.ctx is None:
        return ""
    from pinnace.cli.usage.mistaken import instead_of_flag

    flags = [
        name
        for param in error.ctx.command.get_params(error.ctx)
        if isinstance(param, click.Option) and not param.hidden
        for name in param.opts
        if name.startswith("--")
    ]
    return instead_of_flag(error.ctx.command_path.split()[1:], error.option_name, flags)


def _letter(option: str, words: Sequence[str]) -> str:
    """`'x' in -xy`: a letter, and the word that the user wrote it in."""
    letter = option.removeprefix("-")
    shorts = (word for word in words if word.startswith("-") and not word.startswith("--") and letter in word)
    return f"'{letter}' in {next(shorts, option)}"

"""The entry point of the `pinnace` command.

It imports nothing before it can be interrupted: Ctrl-C while the rest is loaded ends the command as it does
later, without a traceback.
"""

import os
import sys

_INTERRUPTED = 130  # ExitCode.INTERRUPTED, which is not loaded yet
_COMPLETE = "__complete"
"""The command that the completion scripts of the shells call."""
_HELPER = "restore-helper"
_HELPER_PROGRAM = "velero-restic-restore-helper"
"""Called by this name, the program is the restore helper. Images have it where Velero's helper is."""


def main() -> None:
    """Run the command line and exit with its code."""
    if os.getpid() == 1:
        _end_on_sigterm()
    try:
        _open_closed_streams()
        _collect_rarely()
        code = run()
        _end_on_sigint()
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _end_on_sigint()
    except Exception as error:  # noqa: BLE001 - the program could not be loaded; users get no tracebacks
        code = _cannot_run(error)
    code = _write_the_rest(code)
    _leave_at_once(code)
    sys.exit(code)


def _open_closed_streams() -> None:
    """Connect standard streams that are closed (`>&-`) to /dev/null.

    Python has None in their place, and the next file that is opened would get their number: what a child
    process prints would go into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: SIM115 - until the process ends


def run(arguments: list[str] | tuple[str, ...] | None = None) -> int:
    """Run one command, that of the process if no words are given. Returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    called_by = sys.argv[0].rpartition("/")[2] if arguments is None else ""
    if called_by == _HELPER_PROGRAM:
        return _run_restore_helper(words)
    if words[:1] == [_HELPER] and len(words) == 2 and not words[1].startswith("-"):
        return _run_restore_helper(words[1:])
    from pinnace.cli import program

    if words[:1] == [_COMPLETE]:
        from pinnace.cli.completion import answering

        return answering.main(program.cli, words[1:])
    return program.run(arguments)


def _collect_rarely() -> None:
    """Collect garbage rarely, as most commands load as long as they work; servers undo this."""
    from pinnace.aio import gc_thresholds

    gc_thresholds.collect_rarely()


def _cannot_run(error: Exception) -> int:
    """Say in one line why the command could not be loaded or could not report its own error."""
    if os.environ.get("PINNACE_TRACEBACK"):
        raise error
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        text = "out of memory"
    text = text or type(error).__name__
    line = f"An error occurred: the program could not be loaded: {text}\n"
    os.write(2, line.encode(errors="backslashreplace"))
    return 1


def _run_restore_helper(words: list[str]) -> int:
    """Run the restore helper without loading the command line: it has a tenth of a processor."""
    from pinnace.server import restore_helper

    restore_helper.end_on_signals()
    return restore_helper.main(words)


def _leave_at_once(code: int) -> None:
    """End the process at once if no other thread runs, and leave its memory to the kernel.

    Python would free it piece by piece in 40 ms, a tenth of the time of most commands.
    """
    import atexit
    import threading

    if threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    os._exit(_write_the_rest(code))


def _write_the_rest(code: int) -> int:
    """Write what is buffered. Returns the exit code: that of an error if stdout could not be written.

    A stream that fails is replaced, or Python would write it again at exit and end with 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except ValueError:
            continue  # it is closed
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or int(stream is sys.stdout)
    return code


def _end_on_sigterm() -> None:
    """End on SIGTERM, which the first process of a container ignores unless it has a handler.

    A server whose pod is deleted while it loads would run on until it is killed, and might lead meanwhile.
    """
    import signal

    signal.signal(signal.SIGTERM, lambda number, _frame: os._exit(128 + number))


def _end_on_sigint() -> None:
    """Let Ctrl-C end the process at once: from here on a KeyboardInterrupt would not be caught."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()

"""The entry point of the `pinnace` command.

It imports nothing before it can be interrupted: Ctrl-C while the rest is loaded ends the command as it does
later, without a traceback.
"""

import sys

_INTERRUPTED = 130  # ExitCode.INTERRUPTED, which is not loaded yet


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = run()
        _let_interrupts_end_us()
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _let_interrupts_end_us()
    sys.exit(code)


def run(arguments: list[str] | tuple[str, ...] | None = None) -> int:
    """Run one command, that of the process if no words are given. Returns the exit code."""
    from pinnace.cli import program

    return program.run(arguments)


def _let_interrupts_end_us() -> None:
    """From here on Ctrl-C simply ends the process: nobody could catch it while the interpreter ends."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()

"""Texts of errors for people: never empty, and without Python's own notation."""

import os
from typing import Final

NO_MORE_THREADS: Final = (
    "can't start new thread: raise the limit of processes and threads (ulimit -u; in a pod, that of PIDs)"
)


def error_text(error: BaseException) -> str:
    """Return the text of an error; of a group, the texts of all its members.

    `[Errno 2] No such file or directory: 'x'` becomes `x: No such file or directory`.
    """
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(error_text(member) for member in error.exceptions))
    text = str(error)
    if isinstance(error, RuntimeError) and text == "can't start new thread":
        return NO_MORE_THREADS
    if isinstance(error, OSError) and error.strerror and text.startswith("[Errno "):
        return _of_the_system(error)
    if not text or isinstance(error, LookupError | AssertionError):  # a bare key or index says nothing
        return f"{type(error).__name__}: {text}".removesuffix(": ")
    return text


def cause_of(error: BaseException) -> BaseException:
    """Return the first error in a group that is not a cancellation; any other error as it is."""
    import asyncio

    while isinstance(error, BaseExceptionGroup):
        members = error.exceptions
        error = next((one for one in members if not isinstance(one, asyncio.CancelledError)), members[0])
    return error


def _of_the_system(error: OSError) -> str:
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return f"{' -> '.join(names)}: {error.strerror}" if names else str(error.strerror)

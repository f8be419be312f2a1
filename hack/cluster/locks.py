"""Locks that the kernel takes back when their holder ends in any way."""

import fcntl
import socket


def try_lock(descriptor: int) -> bool:
    """Take an exclusive lock on an open file if it is free now; return whether it was."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(descriptor: int) -> bool:
    """Return whether another process holds an exclusive lock on an open file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def claim_name(name: str) -> socket.socket | None:
    """Claim a name on this machine (Linux), leaving no file behind.

    Returns:
        The claim, given back by closing it; None if another process has it.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0{name}")  # the abstract namespace
    except OSError:
        claim.close()
        return None
    return claim

"""The name under which a process is a candidate for a Lease."""

import os
import secrets
import socket


def candidate_name() -> str:
    """A name that no other candidate has, not even the process before a restart of the same container."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"

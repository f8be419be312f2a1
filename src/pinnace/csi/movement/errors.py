"""Why data cannot be moved.

MovementError
└── AgentsNotReady  no node agent could move it
"""

from pinnace.notices.notice import Reported


class MovementError(Exception):
    """The data of a volume cannot be moved; the text becomes the message of its object."""


class AgentsNotReady(Reported, MovementError):
    """No node agent of the cluster is ready to move the data of a snapshot."""

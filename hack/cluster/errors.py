"""Errors of the development cluster; each text is written for a person.

ClusterError
|-- ProgramUnavailable   a program is neither on this machine nor can it be built
`-- StartFailed          a process ended early or was not ready in time
"""


class ClusterError(Exception):
    """Base of every error that hack.cluster raises on purpose."""


class ProgramUnavailable(ClusterError):
    """A program of the cluster is missing; the text says how to get it."""


class StartFailed(ClusterError):
    """A server did not come up; the text names its log and quotes the end of it."""

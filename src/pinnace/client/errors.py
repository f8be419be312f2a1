"""The errors of the ways to a server or a location.

    ClientError            what was asked for cannot be had; the text says why, and what helps
    |- NoSuchObject        no object of that name
    |  `- Unrecorded       there are files of that name without the record that makes them an object
    |- FileMissing         the object exists, but not the requested file of it
    |  `- FileNotOffered   the server does not know the kind of file
    |- PartsUnsupported    the file can only be read as a whole
    |- ServerAbsent        no server runs that could answer
    `- InvalidArgument     what the caller gave is wrong: nothing was done

Each caller translates them at its own edge: the command line in `pinnace.cli.connect`.
"""


class ClientError(Exception):
    """A request cannot be fulfilled. The text is for the user."""


class NoSuchObject(ClientError):
    """No object of that name; the text is the API server's."""


class Unrecorded(NoSuchObject):
    """There are files of that name without the record that makes them a backup or restore."""


class FileMissing(ClientError):
    """The object exists, but not the requested file of it."""


class FileNotOffered(FileMissing):
    """The cluster's definition of DownloadRequests does not know the kind of file; it may be in the store."""


class PartsUnsupported(ClientError):
    """The file can only be read as a whole."""


class ServerAbsent(ClientError):
    """No server runs that could answer; the text is the reason."""


class InvalidArgument(ClientError):
    """A location, a selector or the like is wrong: nothing was done."""

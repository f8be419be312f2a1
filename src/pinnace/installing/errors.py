"""The error of the installer."""


class InstallError(Exception):
    """The installation, or a change of it, cannot go on. The text is for the user."""

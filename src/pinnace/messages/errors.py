"""The errors of messages.

SinkError               a sink did not take a message; trying again makes sense
MessageSettingsError    the settings cannot be read
"""


class SinkError(Exception):
    """A sink did not take a message. `str(error)` is one line without secrets."""


class MessageSettingsError(ValueError):
    """The settings of messages cannot be read. `str(error)` says where and why, and quotes no value."""

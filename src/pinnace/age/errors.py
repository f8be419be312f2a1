"""Errors of age files and keys.

AgeError
├── MalformedFile      the file is no age file, damaged, cut off or beyond the limits
├── NoIdentityMatches  the file is encrypted, and none of the identities opens it
├── InvalidRecipient   a recipient cannot be read or is not allowed
├── InvalidIdentity    an identity cannot be read, or its passphrase is wrong or missing
└── PluginFailed       a plugin program is missing, hangs or fails

No text contains an identity or a passphrase.
"""


class AgeError(Exception):
    """An age file or key cannot be used."""


class MalformedFile(AgeError):
    """The file is no age file, damaged, cut off, or beyond the limits."""


class NoIdentityMatches(AgeError):
    """None of the identities opens the file."""

    def __init__(self) -> None:
        super().__init__("none of the identities opens it")


class InvalidRecipient(AgeError):
    """A recipient cannot be read, or is not allowed here."""


class InvalidIdentity(AgeError):
    """An identity cannot be read."""


class PluginFailed(AgeError):
    """A plugin program is missing, hangs, fails, or asks for something that nobody can answer."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the plugin age-plugin-{name}: {reason}")

"""The errors of signatures and keys.

SigningError
├── BadEnvelope          not a signed statement, or one beyond the limits
├── SignatureNotTrusted  well-formed, but no trusted key has signed it
└── BadKey               a key that cannot be read or used
"""


class SigningError(Exception):
    """The base of this package's errors. No text has anything of a private key."""


class BadEnvelope(SigningError):
    """The content is no signed statement; the text says what is wrong with it."""


class SignatureNotTrusted(SigningError):
    """No trusted key has made one of the signatures."""


class BadKey(SigningError):
    """A key cannot be read or used."""

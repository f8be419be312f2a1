"""The errors of a remote service: an object store, or the API of a cloud.

StorageError               the base of all errors of stores; one line of text that holds no secret
├── StoreUnavailable       unreachable, too slow or overloaded: the same call may succeed later
└── StoreConfigError       a setting, a credential or a file it names is wrong: trying again is useless

`pinnace.storage.errors` has those that only stores raise.
"""


class StorageError(Exception):
    """Base of the errors of stores and clouds; `str(error)` is a clear one-line text without secrets."""


class StoreUnavailable(StorageError):
    """The service could not be reached or did not answer in time; retrying later makes sense."""


class StoreConfigError(StorageError):
    """The configuration or the credentials of a location are wrong."""

"""The kinds of values of flags and arguments: the word in the help, and the source for completion. Pure."""

from enum import StrEnum
from typing import Final, NamedTuple

from pinnace.api import kinds


class CompletionSource(StrEnum):
    """Where completion finds the values that it offers."""

    FILES = "files"
    FOLDERS = "folders"
    BACKUPS = kinds.BACKUPS.plural
    RESTORES = kinds.RESTORES.plural
    SCHEDULES = kinds.SCHEDULES.plural
    LOCATIONS = kinds.BACKUP_STORAGE_LOCATIONS.plural
    SNAPSHOT_LOCATIONS = kinds.VOLUME_SNAPSHOT_LOCATIONS.plural
    REPOSITORIES = kinds.BACKUP_REPOSITORIES.plural
    TENANT_BACKUPS = kinds.NON_ADMIN_BACKUPS.plural
    TENANT_RESTORES = kinds.NON_ADMIN_RESTORES.plural
    TENANT_LOCATIONS = kinds.NON_ADMIN_LOCATIONS.plural
    NAMESPACES = kinds.NAMESPACES.plural
    KINDS = "kinds"
    STORED = "stored"
    STORED_WITH_NAMESPACE = "stored-with-namespace"
    CONTEXTS = "contexts"
    COMMANDS = "commands"
    CODES = "codes"
    PROVIDERS = "providers"


class Value(NamedTuple):
    """One kind of value.

    Attributes:
        word: the word for the value in the help.
        source: where completion finds the values; None if it cannot know them.
        words: all values, if they are few; those that end with `=` are continued.
        like: examples for the help.
    """

    word: str
    source: CompletionSource | None = None
    words: tuple[str, ...] = ()
    like: str = ""


def one_of(*words: str) -> Value:
    """A value that is one of a few words; the help shows all of them."""
    return Value("|".join(words), words=words)


def formats(*words: str) -> Value:
    """The value of `-o`."""
    return Value("FORMAT", words=words)


FILE: Final = Value("FILE", CompletionSource.FILES)
FOLDER: Final = Value("FOLDER", CompletionSource.FOLDERS)
NAMESPACE: Final = Value("NAMESPACE", CompletionSource.NAMESPACES)
NAMESPACES: Final = Value("NAMESPACE,...", CompletionSource.NAMESPACES)
RESOURCES: Final = Value("RESOURCE,...", CompletionSource.KINDS)
BACKUP: Final = Value("BACKUP", CompletionSource.BACKUPS)
SCHEDULE: Final = Value("SCHEDULE", CompletionSource.SCHEDULES)
LOCATION: Final = Value("LOCATION", CompletionSource.LOCATIONS)
SELECTOR: Final = Value("SELECTOR", like="app=web,tier!=db")
TTL: Final = Value("DURATION", like="72h, 30d, 2w")
FEATURES: Final = Value("FEATURE,...", words=("EnableCSI", "EnableAPIGroupVersions", "NonAdmin"))
PROVIDER: Final = Value("PROVIDER", CompletionSource.PROVIDERS)
SECRET_KEY: Final = Value("SECRET=KEY")
ADDRESS: Final = Value("ADDRESS", like=":8085")
BACKUP_NAME: Final = Value("NAME", CompletionSource.BACKUPS)
STORED: Final = Value("KIND/NAME", CompletionSource.STORED)
COMMAND: Final = Value("COMMAND", CompletionSource.COMMANDS)
CODE: Final = Value("CODE", CompletionSource.CODES)
NEW: Final = Value("NAME")
"""The name of an object that is to be made."""

OF_NOUNS: Final = {
    "backup": CompletionSource.BACKUPS,
    "restore": CompletionSource.RESTORES,
    "schedule": CompletionSource.SCHEDULES,
    "backup-location": CompletionSource.LOCATIONS,
    "snapshot-location": CompletionSource.SNAPSHOT_LOCATIONS,
    "repo": CompletionSource.REPOSITORIES,
    "nonadmin backup": CompletionSource.TENANT_BACKUPS,
    "nonadmin restore": CompletionSource.TENANT_RESTORES,
    "nonadmin storage-location": CompletionSource.TENANT_LOCATIONS,
}
"""Where the names of a noun's objects are found."""

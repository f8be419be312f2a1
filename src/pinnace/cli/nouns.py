"""The words for each kind: those of commands, of the API, and the short names that kubectl knows. Pure.

One table serves command names (`bsl get`, `get backups.velero.io`), names as `-o name` prints them
(`backup.velero.io/nightly`), and messages.
"""

from typing import Final

NOUNS: Final[dict[str, tuple[str, ...]]] = {
    "backup": ("backups", "bak"),
    "restore": ("restores", "rst"),
    "schedule": ("schedules", "sched"),
    "backup-location": ("backup-locations", "bsl", "backupstoragelocation", "backupstoragelocations"),
    "snapshot-location": ("snapshot-locations", "vsl", "volumesnapshotlocation", "volumesnapshotlocations"),
    "plugin": ("plugins",),
    "repo": ("repos", "backuprepository", "backuprepositories"),
    "nonadmin backup": ("nab", "nonadminbackup", "nonadminbackups"),
    "nonadmin restore": ("nar", "nonadminrestore", "nonadminrestores"),
    "nonadmin storage-location": (
        "nabsl",
        "nonadminbackupstoragelocation",
        "nonadminbackupstoragelocations",
    ),
}
"""By the words of the noun's commands."""
_BY_WORD: Final = {word: noun for noun, words in NOUNS.items() for word in (noun, *words)}
_GROUPS: Final = frozenset(
    {"", "velero.io", "v1.velero.io", "oadp.openshift.io", "v1alpha1.oadp.openshift.io"}
)


def noun_of(word: str) -> str | None:
    """The noun that a word stands for, as `bsl` and `backupstoragelocations.velero.io`; None for others."""
    resource, _, group = word.lower().partition(".")
    return _BY_WORD.get(resource) if group in _GROUPS else None


def bare_name(word: str, noun: str) -> str:
    """The name in TYPE/NAME, or the word itself if it has no type.

    Raises:
        ValueError: the type is another one than that of the command.
    """
    resource, slash, name = word.partition("/")
    found = noun_of(resource) if slash and name and "/" not in name else None
    if found is None or noun not in NOUNS:
        return word
    if found != noun:
        raise ValueError(f"{word} is a {found}, not a {noun}")
    return name

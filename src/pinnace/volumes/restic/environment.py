"""The environment of a restic process: pure. (docs/spec: STO 16, PVL 7.2)"""

from collections.abc import Mapping

from pinnace.volumes.restic.commands import identifier_is_secret

_OVERRIDDEN = (
    "RESTIC_REPOSITORY",
    "RESTIC_REPOSITORY_FILE",
    "RESTIC_PASSWORD",
    "RESTIC_PASSWORD_FILE",
    "RESTIC_PASSWORD_COMMAND",
    "RESTIC_KEY_HINT",
)
"""Variables that restic would read in addition to our flags, and refuse to work with both."""

_PROGRESS_VARIABLE = "RESTIC_PROGRESS_FPS"


def environment(
    inherited: Mapping[str, str], identifier: str, of_the_store: Mapping[str, str | None]
) -> dict[str, str]:
    """All variables for restic.

    Args:
        inherited: of our own process.
        identifier: the repository; put here if it has credentials in it.
        of_the_store: as `UploaderStore.restic_environment` gives them.
    """
    made = {name: value for name, value in inherited.items() if name not in _OVERRIDDEN}
    # By default restic prints 60 times a second when it prints JSON.
    made.setdefault(_PROGRESS_VARIABLE, "1")
    if identifier_is_secret(identifier):
        made["RESTIC_REPOSITORY"] = identifier
    for name, value in of_the_store.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = value
    return made

"""Settings of repositories: from the ConfigMap that `--backup-repository-configmap` names into each
BackupRepository when it is made, and from there to kopia. Pure. (docs/spec: BEY 6.3)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pinnace.api.values.digits import is_digits

CACHE_LIMIT: Final = "cacheLimitMB"
FULL_MAINTENANCE: Final = "fullMaintenanceInterval"
FULL_HOURS: Final[Mapping[str, int]] = {"normalGC": 24, "fastGC": 12, "eagerGC": 6}
_LARGEST_MB: Final = 10**7


class RepositoryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a repository that kopia gets.

    Attributes:
        cache_limit_bytes: of contents and metadata together; 0 for the defaults.
        full_hours: between two full maintenances; 0 leaves it as it is.
    """

    cache_limit_bytes: int = 0
    full_hours: int = 0

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "RepositoryConfig":
        """The settings of a BackupRepository, which users may edit; what cannot be used is ignored."""
        limit = settings.get(CACHE_LIMIT, "")
        return cls(
            cache_limit_bytes=int(limit) << 20 if is_digits(limit) and len(limit) < 8 else 0,
            full_hours=FULL_HOURS.get(settings.get(FULL_MAINTENANCE, ""), 0),
        )


def settings_of(document: str) -> tuple[dict[str, str], Sequence[str]]:
    """`spec.repositoryConfig` for the JSON of one uploader, and a warning for each member without effect.

    Raises:
        ValueError: it is not valid.
    """
    try:
        found: Any = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    made: dict[str, str] = {}
    if (limit := found.pop(CACHE_LIMIT, None)) is not None:
        if not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit < _LARGEST_MB:
            raise ValueError(f"{CACHE_LIMIT} must be a number of megabytes")
        made[CACHE_LIMIT] = str(limit)
    if (interval := found.pop(FULL_MAINTENANCE, None)) is not None:
        if interval not in FULL_HOURS:
            raise ValueError(f"{FULL_MAINTENANCE} must be one of {', '.join(FULL_HOURS)}")
        made[FULL_MAINTENANCE] = interval
    return made, [f"{name} has no effect: there is no such setting" for name in sorted(found)]

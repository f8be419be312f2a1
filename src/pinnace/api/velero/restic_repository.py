"""ResticRepository: the restic repository of one namespace in one location. (docs/spec: API 8)"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, REQUIRED, NullableTime
from pinnace.api.meta import ObjectMeta
from pinnace.api.values.durations import Duration


class ResticRepositoryPhase(StrEnum):
    """Whether the repository can be used. Empty counts as New."""

    NEW = "New"
    READY = "Ready"
    NOT_READY = "NotReady"


class ResticRepositorySpec(Struct, rename="camel", kw_only=True):
    """Which repository this is.

    Attributes:
        volume_namespace: The namespace whose volumes the repository holds.
        backup_storage_location: The location that holds the repository.
        restic_identifier: The repository, as restic's `--repo` takes it; empty until it is known.
        maintenance_frequency: How often the repository is pruned; the server's default when not positive.
    """

    volume_namespace: Annotated[str, REQUIRED] = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    restic_identifier: Annotated[str, REQUIRED] = ""
    maintenance_frequency: Annotated[Duration, REQUIRED] = Duration()


class ResticRepositoryStatus(Struct, rename="camel", kw_only=True):
    """What the server last found out about the repository.

    Attributes:
        phase: Whether the repository can be used.
        message: Why it cannot be used, or what went wrong with its maintenance.
        last_maintenance_time: When the repository was last pruned.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: ResticRepositoryPhase})] = ""
    message: str = ""
    last_maintenance_time: NullableTime = None


class ResticRepository(Struct, rename="camel", kw_only=True):
    """The restic repository that holds the volumes of one namespace."""

    kind: str = "ResticRepository"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResticRepositorySpec = field(default_factory=ResticRepositorySpec)
    status: ResticRepositoryStatus = field(default_factory=ResticRepositoryStatus)

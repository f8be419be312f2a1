"""VolumeSnapshotLocation: where a provider keeps volume snapshots. (docs/spec: API 6)"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.storage_location import SecretKeySelector


class VolumeSnapshotLocationPhase(StrEnum):
    """Whether the location can be used. Nothing writes it."""

    AVAILABLE = "Available"
    UNAVAILABLE = "Unavailable"


class VolumeSnapshotLocationSpec(Struct, rename="camel", kw_only=True):
    """Where volume snapshots are kept.

    Attributes:
        provider: Name of the plugin that makes the snapshots.
        config: Settings of the provider.
        credential: The Secret key with the provider's credentials; those of the server when absent. A field
            of later versions of Velero. (docs/spec: BEY 7.4)
    """

    provider: Annotated[str, REQUIRED] = ""
    config: dict[str, str] = {}
    credential: Annotated[SecretKeySelector | None, NULLABLE] = None


class VolumeSnapshotLocationStatus(Struct, rename="camel", kw_only=True):
    """What is known about the location.

    Attributes:
        phase: Whether the location can be used.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: VolumeSnapshotLocationPhase})] = ""


class VolumeSnapshotLocation(Struct, rename="camel", kw_only=True):
    """A place where a provider keeps volume snapshots."""

    kind: str = "VolumeSnapshotLocation"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeSnapshotLocationSpec = field(default_factory=VolumeSnapshotLocationSpec)
    status: VolumeSnapshotLocationStatus = field(default_factory=VolumeSnapshotLocationStatus)

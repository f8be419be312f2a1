"""BackupStorageLocation: a bucket that holds backups. (docs/spec: API 5)"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED, NullableTime
from pinnace.api.meta import ObjectMeta
from pinnace.api.values.durations import Duration

DEFAULT_LOCATION: Final = "default"
"""The name of the location for backups that name none, where no location is marked as the default."""


class BackupStorageLocationPhase(StrEnum):
    """Whether the location could be used at its last validation; empty before the first."""

    AVAILABLE = "Available"
    UNAVAILABLE = "Unavailable"


class BackupStorageLocationAccessMode(StrEnum):
    """Whether backups may be made to a location. Empty counts as ReadWrite."""

    READ_ONLY = "ReadOnly"
    READ_WRITE = "ReadWrite"


class SecretKeySelector(Struct, rename="camel", kw_only=True):
    """One key of a Secret in the namespace of the server.

    Attributes:
        name: Name of the Secret. A selector without a name counts as absent.
        key: The key in the Secret.
        optional: Whether the Secret or its key may be missing.
    """

    name: str = ""
    key: Annotated[str, REQUIRED] = ""
    optional: bool | None = None


class ObjectStorageLocation(Struct, rename="camel", kw_only=True):
    """A place in an object store.

    Attributes:
        bucket: The bucket to use.
        prefix: Path inside the bucket; everything is kept under it.
        ca_cert: CA bundle in PEM to verify the store's certificate with.
        ca_cert_ref: The Secret key that holds the CA bundle, in place of caCert. A field of later versions of
            Velero. (docs/spec: BEY 7.3)
    """

    bucket: Annotated[str, REQUIRED] = ""
    prefix: str = ""
    ca_cert: bytes = b""
    ca_cert_ref: Annotated[SecretKeySelector | None, NULLABLE] = None


class BackupStorageLocationSpec(Struct, rename="camel", kw_only=True):
    """Where backups are kept.

    Attributes:
        provider: Name of the plugin that talks to the store; `aws` means `velero.io/aws`.
        config: Settings of the provider.
        credential: The Secret key with the store's credentials.
        object_storage: The bucket.
        default: Whether this is the location of backups that name none.
        access_mode: ReadOnly or ReadWrite; ReadWrite when empty.
        backup_sync_period: How often the cluster's Backups are synced with the location; 0 means never,
            absent or negative the server's default.
        validation_frequency: How often the location is checked; 0 means once, absent or negative the
            server's default.
    """

    provider: Annotated[str, REQUIRED] = ""
    config: dict[str, str] = {}
    credential: SecretKeySelector | None = None
    object_storage: Annotated[ObjectStorageLocation, REQUIRED] = field(default_factory=ObjectStorageLocation)
    default: bool = False
    access_mode: Annotated[str, Meta(extra={ENUM_KEY: BackupStorageLocationAccessMode})] = ""
    backup_sync_period: Annotated[Duration | None, NULLABLE] = None
    validation_frequency: Annotated[Duration | None, NULLABLE] = None


class BackupStorageLocationStatus(Struct, rename="camel", kw_only=True):
    """What the server last found out about the location.

    Attributes:
        phase: Whether the location can be used.
        last_synced_time: When the cluster's Backups were last synced with the location.
        last_validation_time: When the location was last checked.
        message: Why the location cannot be used.
        last_synced_revision: Deprecated; never written.
        access_mode: Deprecated; never written.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: BackupStorageLocationPhase})] = ""
    last_synced_time: NullableTime = None
    last_validation_time: NullableTime = None
    # Not in v1.6.3; an optional field that later versions have too (docs/spec: README, BEY 2.1).
    message: str = ""
    last_synced_revision: str = ""
    access_mode: Annotated[str, Meta(extra={ENUM_KEY: BackupStorageLocationAccessMode})] = ""


class BackupStorageLocation(Struct, rename="camel", kw_only=True):
    """A bucket, or a part of one, that holds backups."""

    kind: str = "BackupStorageLocation"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupStorageLocationSpec = field(default_factory=BackupStorageLocationSpec)
    status: BackupStorageLocationStatus = field(default_factory=BackupStorageLocationStatus)

"""ServerStatusRequest: a request for the version and the plugins of a server. (docs/spec: API 9.3)"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED, NullableTime
from pinnace.api.meta import ObjectMeta


class ServerStatusRequestPhase(StrEnum):
    """The phase of a request. Empty counts as New."""

    NEW = "New"
    PROCESSED = "Processed"


class PluginInfo(Struct, rename="camel", kw_only=True):
    """A plugin that the server has.

    Attributes:
        name: Registered name, `<domain>/<plugin>`.
        kind: What it does: ObjectStore, VolumeSnapshotter, BackupItemAction, RestoreItemAction or
            DeleteItemAction.
    """

    name: Annotated[str, REQUIRED] = ""
    kind: Annotated[str, REQUIRED] = ""


class ServerStatusRequestSpec(Struct, rename="camel", kw_only=True):
    """Empty: a request has no parameters."""


class ServerStatusRequestStatus(Struct, rename="camel", kw_only=True):
    """The answer.

    Attributes:
        phase: The phase of the request.
        processed_timestamp: When the server answered.
        server_version: Version of the server.
        plugins: The plugins that the server has.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: ServerStatusRequestPhase})] = ""
    processed_timestamp: NullableTime = None
    server_version: str = ""
    plugins: Annotated[list[PluginInfo], NULLABLE] = []


class ServerStatusRequest(Struct, rename="camel", kw_only=True):
    """A request for the version and the plugins of the server."""

    kind: str = "ServerStatusRequest"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServerStatusRequestSpec = field(default_factory=ServerStatusRequestSpec)
    status: ServerStatusRequestStatus = field(default_factory=ServerStatusRequestStatus)

"""NonAdminDownloadRequest: a tenant's request for a file of its backup or restore. (docs/spec: NAC 4.5)"""

from typing import Annotated

from msgspec import Struct, field

from pinnace.api.fields import REQUIRED
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin import API_VERSION
from pinnace.api.nonadmin.common import Mirror, RequestStatus
from pinnace.api.velero.download_request import DownloadTarget


class NonAdminDownloadRequestSpec(Struct, rename="camel", kw_only=True):
    """What to download.

    Attributes:
        target: The file; its name is that of a NonAdminBackup or NonAdminRestore in this namespace.
    """

    target: Annotated[DownloadTarget, REQUIRED] = field(default_factory=DownloadTarget)


class VeleroDownloadRequest(Struct, rename="camel", kw_only=True):
    """The DownloadRequest that was made for the request.

    Attributes:
        status: The DownloadRequest's status: the signed URL and its expiration.
    """

    status: Mirror | None = None


class NonAdminDownloadRequestStatus(RequestStatus, rename="camel", kw_only=True):
    """Where to download it.

    Attributes:
        velero: The DownloadRequest that was made for the request.
    """

    velero: VeleroDownloadRequest | None = None


class NonAdminDownloadRequest(Struct, rename="camel", kw_only=True):
    """A tenant's request for a file of its backup or restore, stored in a location of its own."""

    kind: str = "NonAdminDownloadRequest"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NonAdminDownloadRequestSpec = field(default_factory=NonAdminDownloadRequestSpec)
    status: NonAdminDownloadRequestStatus = field(default_factory=NonAdminDownloadRequestStatus)

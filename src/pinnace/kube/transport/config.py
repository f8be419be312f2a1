"""The settings of a connection to one cluster. `kube.config` finds them."""

import msgspec

from pinnace.kube.transport.credentials import Authenticator, Impersonation, StaticAuth
from pinnace.kube.transport.timeouts import DEFAULT_PATIENCE_SECONDS
from pinnace.kube.transport.tls import TLSSettings


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a connection to one cluster.

    Attributes:
        server: base URL without a slash at the end; may have a path.
        tls: the trusted certificates, and a client certificate.
        auth: provides the credentials of each request.
        proxy: URL of the HTTP proxy, which may hold a password.
        impersonation: the user to impersonate.
        origin: the source of these settings, for error texts.
        user: the user and the context as a person names them, for error texts.
        context: of the kubeconfig; empty in a pod.
        namespace: of the context, if it names one.
        patience_seconds: how long an outage of the server is waited out. (docs/adr/010)
    """

    server: str
    tls: TLSSettings = msgspec.field(default_factory=TLSSettings)
    auth: Authenticator = msgspec.field(default_factory=StaticAuth)
    proxy: str | None = None
    impersonation: Impersonation | None = None
    origin: str = ""
    user: str = ""
    context: str = ""
    namespace: str = ""
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS

    def __repr__(self) -> str:
        return f"ClusterConfig(server={self.server!r}, origin={self.origin!r})"

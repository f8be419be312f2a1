"""The settings of a connection to one cluster. `kube.config` finds them."""

from dataclasses import dataclass, field

from pinnace.kube.transport.credentials import Authenticator, Impersonation, StaticAuth
from pinnace.kube.transport.requests import DEFAULT_PATIENCE_SECONDS
from pinnace.kube.transport.tls import TLSSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The settings of a connection to one cluster.

    Attributes:
        server: base URL without a slash at the end; may have a path.
        tls: the trusted certificates, and a client certificate.
        auth: provides the credentials of each request.
        proxy: URL of the HTTP proxy, which may hold a password.
        impersonation: the user to impersonate.
        origin: the source of these settings, for error texts.
        user: the user and the context as a person names them, for error texts.
        namespace: of the context, if it names one.
        patience_seconds: how long an outage of the server is waited out. (docs/adr/010)
    """

    server: str
    tls: TLSSettings = field(default_factory=TLSSettings)
    auth: Authenticator = field(default_factory=StaticAuth)
    proxy: str | None = field(default=None, repr=False)
    impersonation: Impersonation | None = None
    origin: str = ""
    user: str = ""
    namespace: str = ""
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS

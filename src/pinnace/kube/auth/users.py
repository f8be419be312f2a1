"""Turns a user entry of kubeconfig into an authenticator and a client certificate.

Contradicting settings are refused instead of silently ignoring one of them: acting as another user than the
intended one is worse than not acting.
"""

import os
from collections.abc import Mapping

from pinnace.kube.auth.exec_plugin import GROUP, VERSIONS, ClusterInfo, ExecAuth, ExecPlugin
from pinnace.kube.errors import ConfigError
from pinnace.kube.kubeconfig import (
    EXEC_EXTENSION,
    AuthProviderEntry,
    ClusterEntry,
    ExecEntry,
    KubeconfigEntry,
    UserEntry,
)
from pinnace.kube.transport.credentials import (
    Authenticator,
    ClientCertificate,
    Impersonation,
    StaticAuth,
    TokenFileAuth,
    basic,
    bearer,
)
from pinnace.kube.transport.proxy import environment_proxy
from pinnace.kube.transport.tls import TLSSettings

_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


def cluster_ca(cluster: KubeconfigEntry[ClusterEntry]) -> bytes | None:
    """The certificates a cluster entry trusts, if it names any.

    Raises:
        ConfigError: if they cannot be read.
    """
    entry = cluster.value
    return cluster.content(
        "certificate-authority", entry.certificate_authority_data, entry.certificate_authority
    )


def client_certificate(user: KubeconfigEntry[UserEntry]) -> ClientCertificate | None:
    """The client certificate of a user entry, if it has one.

    Raises:
        ConfigError: if it cannot be read, or one half is missing.
    """
    entry = user.value
    certificate = user.content("client-certificate", entry.client_certificate_data, entry.client_certificate)
    key = user.content("client-key", entry.client_key_data, entry.client_key)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "client-certificate" if certificate is None else "client-key"
        raise ConfigError(f"{user.origin(missing)}: is needed, since its counterpart is set")
    return ClientCertificate(certificate, key)


def impersonation(user: KubeconfigEntry[UserEntry]) -> Impersonation | None:
    """The user to impersonate, if the user entry names one.

    Raises:
        ConfigError: if it names groups, a uid or extra fields without a user.
    """
    entry = user.value
    if entry.impersonate:
        return Impersonation(
            user=entry.impersonate,
            uid=entry.as_uid or "",
            groups=entry.as_groups or (),
            extra=entry.as_user_extra or {},
        )
    if entry.as_uid or entry.as_groups or entry.as_user_extra:
        raise ConfigError(f"{user.origin('as')}: is needed with as-uid, as-groups or as-user-extra")
    return None


def authenticator(
    cluster: KubeconfigEntry[ClusterEntry], user: KubeconfigEntry[UserEntry], environ: Mapping[str, str]
) -> Authenticator:
    """The authenticator of a user entry.

    Raises:
        ConfigError: if it names several, or one that is incomplete or not supported.
    """
    entry = user.value
    ways = [
        name
        for name, is_set in (
            ("token", bool(entry.token or entry.token_file)),
            ("username", bool(entry.username)),
            ("auth-provider", entry.auth_provider is not None),
            ("exec", entry.exec_ is not None),
        )
        if is_set
    ]
    if len(ways) > 1:
        raise ConfigError(f"{user.origin()}: more than one way to sign in ({', '.join(ways)})")
    if entry.token_file:
        return TokenFileAuth(user.resolve(entry.token_file), fallback=entry.token or "")
    if entry.token:
        return StaticAuth(bearer(entry.token))
    if entry.username:
        return StaticAuth(basic(entry.username, entry.password or ""))
    if entry.auth_provider is not None:
        return _oidc(user, entry.auth_provider, environ)
    if entry.exec_ is not None:
        return ExecAuth(_exec_plugin(cluster, user, entry.exec_))
    return StaticAuth()


def _exec_plugin(
    cluster: KubeconfigEntry[ClusterEntry], user: KubeconfigEntry[UserEntry], entry: ExecEntry
) -> ExecPlugin:
    command = entry.command or ""
    if not command:
        raise ConfigError(f"{user.origin('exec.command')}: is not set")
    group, _, version = (entry.api_version or "").partition("/")
    if group != GROUP or version not in VERSIONS:
        raise ConfigError(
            f"{user.origin('exec.apiVersion')}: {entry.api_version or ''!r} is not supported, only"
            f" {', '.join(f'{GROUP}/{known}' for known in VERSIONS)}"
        )
    mode = entry.interactive_mode or ("" if version == "v1" else "IfAvailable")
    if mode not in _INTERACTIVE_MODES:
        raise ConfigError(
            f"{user.origin('exec.interactiveMode')}: {mode!r} is none of {', '.join(_INTERACTIVE_MODES)}"
        )
    return ExecPlugin(
        # A bare name is looked up in PATH, anything with a slash is relative to the file.
        command=str(user.resolve(command)) if os.sep in command else command,
        version=version,
        origin=user.origin("exec"),
        args=entry.args or (),
        env={variable.name: variable.value for variable in entry.env or ()},
        install_hint=entry.install_hint or "",
        interactive_mode=mode,
        cluster=_cluster_info(cluster) if entry.provide_cluster_info else None,
    )


def _cluster_info(cluster: KubeconfigEntry[ClusterEntry]) -> ClusterInfo:
    entry = cluster.value
    extensions = {extension.name: extension.extension for extension in entry.extensions or ()}
    return ClusterInfo(
        server=entry.server or "",
        tls_server_name=entry.tls_server_name or "",
        insecure_skip_tls_verify=bool(entry.insecure_skip_tls_verify),
        certificate_authority_data=cluster_ca(cluster),
        proxy_url=entry.proxy_url or "",
        disable_compression=bool(entry.disable_compression),
        config=extensions.get(EXEC_EXTENSION),
    )


def _oidc(
    user: KubeconfigEntry[UserEntry], provider: AuthProviderEntry, environ: Mapping[str, str]
) -> Authenticator:
    # Few users need it, and its HTTP library takes longer to import than all the rest of this package.
    from pinnace.kube.auth.oidc import OIDCAuth, OIDCSettings

    origin = user.origin("auth-provider")
    if provider.name != "oidc":
        raise ConfigError(
            f"{origin}.name: {provider.name!r} is not supported, only 'oidc'; use an exec plugin"
        )
    values = provider.config or {}
    for required in ("idp-issuer-url", "client-id"):
        if not values.get(required):
            raise ConfigError(f"{origin}.config.{required}: is not set")
    ca = user.content(
        "auth-provider.config.idp-certificate-authority",
        values.get("idp-certificate-authority-data"),
        values.get("idp-certificate-authority"),
    )
    return OIDCAuth(
        OIDCSettings(
            issuer=values["idp-issuer-url"],
            client_id=values["client-id"],
            origin=origin,
            client_secret=values.get("client-secret", ""),
            id_token=values.get("id-token", ""),
            refresh_token=values.get("refresh-token", ""),
            tls=TLSSettings(ca=ca, origin=f"{origin}.config.idp-certificate-authority"),
            proxy=environment_proxy(values["idp-issuer-url"], environ),
        )
    )

"""Finds the settings of a connection in kubeconfig or in the service account of the pod.

Order of the sources: the given file, else the files in KUBECONFIG, merged, else
`~/.kube/config`, else the service account of the pod we run in. (docs/spec: CLI 1.4)
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from pinnace.aio.small_files import read_small_file
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.kube.auth.users import authenticator, client_certificate, cluster_ca, impersonation
from pinnace.kube.errors import ConfigError
from pinnace.kube.kubeconfig import ClusterEntry, Kubeconfig, KubeconfigEntry, UserEntry, load_files
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import StaticAuth, TokenFileAuth
from pinnace.kube.transport.proxy import check_proxy_url, environment_proxy
from pinnace.kube.transport.timeouts import DEFAULT_PATIENCE_SECONDS
from pinnace.kube.transport.tls import TLSSettings

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NOT_FOUND = (
    "error finding Kubernetes API server config in --kubeconfig, $KUBECONFIG, or in-cluster configuration: "
)


def load_config(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
    environ: Mapping[str, str] | None = None,
    service_account_dir: Path = SERVICE_ACCOUNT_DIR,
) -> ClusterConfig:
    """Return the settings of the cluster to connect to. Reads files, so call it before the event loop runs.

    Args:
        kubeconfig: the file of `--kubeconfig`; "" counts as not given.
        context: the context of `--kubecontext`; "" counts as not given.
        patience_seconds: as in `ClusterConfig`; `--api-timeout`.
        environ: the environment; that of the process by default.
        service_account_dir: the folder of a pod's token and CA.

    Raises:
        ConfigError: no source has a usable configuration; the text names file and field, if any.
    """
    environ = os.environ if environ is None else environ
    found = _find_config(kubeconfig, context, environ, service_account_dir)
    return replace(found, patience_seconds=patience_seconds)


def contexts(kubeconfig: str | None = None, *, environ: Mapping[str, str] | None = None) -> list[str]:
    """The names of the contexts of the kubeconfig files that `load_config` reads. Raises ConfigError."""
    paths, must_exist = _kubeconfig_paths(kubeconfig, os.environ if environ is None else environ)
    merged = load_files(paths, must_exist=must_exist)
    return sorted(merged.contexts) if merged is not None else []


def _find_config(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str], service_account_dir: Path
) -> ClusterConfig:
    paths, must_exist = _kubeconfig_paths(kubeconfig, environ)
    try:
        merged = load_files(paths, must_exist=must_exist)
        chosen = context or (merged.current_context if merged is not None else "")
        if merged is not None and chosen:
            return _from_kubeconfig(merged, chosen, environ)
        if context:
            text = f"context {context!r} does not exist: there is no kubeconfig file{_missing(paths)}"
            raise ConfigError(text)
        if must_exist:
            raise ConfigError(_no_context(paths, merged))
        if merged is None or "KUBERNETES_SERVICE_HOST" in environ:
            try:
                return in_cluster_config(environ=environ, service_account_dir=service_account_dir)
            except ConfigError as error:
                raise ConfigError(f"{error}{_missing(paths)}") from error
        raise ConfigError(_no_context(paths, merged))
    except ConfigError as error:
        raise ConfigError(f"{_NOT_FOUND}{error}") from error


def _no_context(paths: Sequence[Path], merged: Kubeconfig | None) -> str:
    """The message about files without a current-context."""
    shown = ", ".join(str(path) for path in paths)
    there = sorted(merged.contexts) if merged is not None else ()
    if not there:
        return f"{shown}: there is no context in it"
    return f"{shown}: current-context is not set, and no context was given: name one of {', '.join(there)}"


def in_cluster_config(
    *, environ: Mapping[str, str] | None = None, service_account_dir: Path = SERVICE_ACCOUNT_DIR
) -> ClusterConfig:
    """The settings of a pod: its service account's token, read again as the kubelet rotates it.

    Raises:
        ConfigError: if we do not run in a pod, or it has no service account token.
    """
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError(
            "not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set) and no kubeconfig"
        )
    token_file, ca_file = service_account_dir / "token", service_account_dir / "ca.crt"
    if not token_file.is_file():
        raise ConfigError(f"{token_file}: no such file; the pod has no service account token mounted")
    try:
        ca = read_small_file(ca_file)
    except OSError as error:
        raise ConfigError(f"{ca_file}: cannot be read: {error.strerror}") from error
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClusterConfig(
        server=server,
        tls=TLSSettings(ca=ca, origin=str(ca_file)),
        auth=TokenFileAuth(token_file),
        proxy=environment_proxy(server, environ),
        origin=str(service_account_dir),
        user="the service account of this pod",
    )


def _missing(paths: Sequence[Path]) -> str:
    """The kubeconfig files that were looked for and do not exist."""
    missing = [str(path) for path in paths if not path.exists()]
    return f" ({', '.join(missing)} does not exist)" if missing else ""


def _kubeconfig_paths(kubeconfig: str | None, environ: Mapping[str, str]) -> tuple[list[Path], bool]:
    """The files to merge, and whether they must exist."""
    if kubeconfig:
        return [Path(os.path.expanduser(kubeconfig))], True
    listed = environ.get("KUBECONFIG", "")
    if listed:
        return [Path(part) for part in dict.fromkeys(listed.split(os.pathsep)) if part], False
    home = environ.get("HOME")
    return ([Path(home, ".kube", "config")] if home else []), False


def _from_kubeconfig(merged: Kubeconfig, name: str, environ: Mapping[str, str]) -> ClusterConfig:
    context = merged.contexts.get(name)
    if context is None:
        near = near_names(name, merged.contexts)
        listed = "" if near else f"; there are {', '.join(sorted(merged.contexts)) or 'none'}"
        raise ConfigError(f"context {name!r} does not exist{did_you_mean(near)}{listed}")
    cluster = merged.clusters.get(context.value.cluster or "")
    if cluster is None:
        wanted = context.value.cluster or ""
        raise ConfigError(f"{context.origin('cluster')}: there is no cluster {wanted!r}")
    user: KubeconfigEntry[UserEntry] | None = None
    if context.value.user:
        user = merged.users.get(context.value.user)
        if user is None:
            raise ConfigError(f"{context.origin('user')}: there is no user {context.value.user!r}")
    server = _server(cluster)
    proxy = _proxy(cluster, server, environ)
    return ClusterConfig(
        server=server,
        tls=_tls(cluster, user),
        auth=StaticAuth() if user is None else authenticator(cluster, user, environ),
        proxy=proxy,
        impersonation=None if user is None else impersonation(user),
        origin=context.origin(),
        user=f"user {context.value.user!r} of context {name!r}" if user is not None else f"context {name!r}",
        context=name,
        namespace=context.value.namespace or "",
    )


def _server(cluster: KubeconfigEntry[ClusterEntry]) -> str:
    server = (cluster.value.server or "").rstrip("/")
    origin = cluster.origin("server")
    try:
        parts = urlsplit(server)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:
        raise ConfigError(f"{origin}: not a valid URL") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{origin}: must not hold a user name or password")
    if not valid:
        raise ConfigError(f"{origin}: {server!r} is not a URL of the form https://host:port")
    return server


def _proxy(cluster: KubeconfigEntry[ClusterEntry], server: str, environ: Mapping[str, str]) -> str | None:
    if cluster.value.proxy_url:
        return check_proxy_url(cluster.value.proxy_url, cluster.origin("proxy-url"))
    return environment_proxy(server, environ)


def _tls(cluster: KubeconfigEntry[ClusterEntry], user: KubeconfigEntry[UserEntry] | None) -> TLSSettings:
    ca = cluster_ca(cluster)
    insecure = bool(cluster.value.insecure_skip_tls_verify)
    if insecure and ca is not None:
        raise ConfigError(
            f"{cluster.origin('certificate-authority')}: cannot be set together with insecure-skip-tls-verify"
        )
    certificate = None if user is None else client_certificate(user)
    origin = cluster.origin()
    if certificate is not None and user is not None:
        origin = f"{origin}, {user.origin()}"
    return TLSSettings(
        ca=ca,
        insecure=insecure,
        server_name=cluster.value.tls_server_name or "",
        certificate=certificate,
        origin=origin,
    )

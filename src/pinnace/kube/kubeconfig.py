"""Reads kubeconfig files and merges several into one.

`config` interprets the entries. Nothing is ever written back, not even renewed tokens.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from pinnace.aio.small_files import read_small_file
from pinnace.kube.errors import ConfigError
from pinnace.kube.plain_yaml import NotPlain, read_plain

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster entry that is passed on to exec plugins."""


class ExecVariable(msgspec.Struct, frozen=True):
    """One environment variable of an exec plugin."""

    name: str
    value: str = ""

    def __repr__(self) -> str:
        return f"ExecVariable(name={self.name!r})"


class ExecEntry(msgspec.Struct, frozen=True, rename="camel"):
    """`users[].user.exec`."""

    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    api_version: str | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None

    def __repr__(self) -> str:
        return f"ExecEntry(command={self.command!r})"


class AuthProviderEntry(msgspec.Struct, frozen=True):
    """`users[].user.auth-provider`."""

    name: str
    config: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"AuthProviderEntry(name={self.name!r})"


class UserEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """`users[].user`. Never shown: nearly every field can be a secret."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    impersonate: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: tuple[str, ...] | None = None
    as_user_extra: dict[str, tuple[str, ...]] | None = None
    auth_provider: AuthProviderEntry | None = None
    exec_: ExecEntry | None = msgspec.field(name="exec", default=None)

    def __repr__(self) -> str:
        return "UserEntry(...)"


class Extension(msgspec.Struct, frozen=True):
    """One named extension of an entry."""

    name: str
    extension: Any = None


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """`clusters[].cluster`."""

    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None
    extensions: tuple[Extension, ...] | None = None

    def __repr__(self) -> str:
        return f"ClusterEntry(server={self.server!r})"


class ContextEntry(msgspec.Struct, frozen=True):
    """`contexts[].context`. Its namespace is a tenant's, never the server's. (docs/spec: CLI 1.3)"""

    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterEntry | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: UserEntry | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: ContextEntry | None = None


class _Document(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


T = TypeVar("T")


class KubeconfigEntry(msgspec.Struct, Generic[T], frozen=True):
    """One entry and its file; relative paths in the entry are relative to the file's folder."""

    file: Path
    label: str
    value: T

    def origin(self, field_name: str = "") -> str:
        """`FILE: users[admin].token`, for error texts."""
        return f"{self.file}: {self.label}.{field_name}" if field_name else f"{self.file}: {self.label}"

    def resolve(self, path: str) -> Path:
        """A path of this entry, made absolute from the file's folder."""
        return self.file.parent / path

    def content(self, field_name: str, data: str | None, path: str | None) -> bytes | None:
        """The bytes of a pair of fields `X-data` and `X`; the data takes precedence over the file.

        Raises:
            ConfigError: if the data is not base64 or the file cannot be read.
        """
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError):
                # Without the cause, which may quote the data.
                raise ConfigError(f"{self.origin(field_name)}-data: not valid base64") from None
        if not path:
            return None
        try:
            return read_small_file(self.resolve(path))
        except OSError as error:
            reason = f"cannot read {self.resolve(path)}: {error.strerror}"
            raise ConfigError(f"{self.origin(field_name)}: {reason}") from error


class Kubeconfig(msgspec.Struct, frozen=True):
    """The merged content of one or more files."""

    current_context: str = ""
    clusters: dict[str, KubeconfigEntry[ClusterEntry]] = msgspec.field(default_factory=dict)
    users: dict[str, KubeconfigEntry[UserEntry]] = msgspec.field(default_factory=dict)
    contexts: dict[str, KubeconfigEntry[ContextEntry]] = msgspec.field(default_factory=dict)


def load_files(paths: Sequence[Path], *, must_exist: bool) -> Kubeconfig | None:
    """Read and merge kubeconfig files: the first file that has an entry wins.

    Returns:
        None if none of the files exists.

    Raises:
        ConfigError: a file cannot be read or parsed or, with `must_exist`, does not exist.
    """
    documents = [
        (path, document) for path in paths if (document := _read(path, must_exist=must_exist)) is not None
    ]
    return _merge(documents) if documents else None


def _read(path: Path, *, must_exist: bool) -> _Document | None:
    try:
        content = read_small_file(path)
    except FileNotFoundError as error:
        if must_exist:
            raise ConfigError(f"{path}: no such file") from error
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        loaded = read_plain(content)
    except NotPlain:
        loaded = _read_yaml(path, content)
    try:
        return msgspec.convert(loaded if loaded is not None else {}, _Document)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: is not a kubeconfig: {error}") from error


def _read_yaml(path: Path, content: bytes) -> Any:
    import yaml  # takes longer to load than a request, and few kubeconfig files need it

    try:
        return yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        # Without the cause: YAML's errors quote the faulty lines, tokens included.
        raise ConfigError(f"{path}: is not valid YAML{_position(error)}") from None


def _position(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark is not None else ""


def _merge(documents: Iterable[tuple[Path, _Document]]) -> Kubeconfig:
    current_context = ""
    merged = Kubeconfig()
    for path, document in documents:
        file = path.absolute()
        current_context = current_context or document.current_context or ""
        for cluster in document.clusters or ():
            label = f"clusters[{cluster.name}].cluster"
            merged.clusters.setdefault(
                cluster.name, KubeconfigEntry(file, label, cluster.cluster or ClusterEntry())
            )
        for user in document.users or ():
            label = f"users[{user.name}].user"
            merged.users.setdefault(user.name, KubeconfigEntry(file, label, user.user or UserEntry()))
        for context in document.contexts or ():
            label = f"contexts[{context.name}].context"
            merged.contexts.setdefault(
                context.name, KubeconfigEntry(file, label, context.context or ContextEntry())
            )
    return Kubeconfig(current_context, merged.clusters, merged.users, merged.contexts)

"""Credentials of locations as private files, for what reads them from files. (docs/spec: STO 10, SRV 12)

The bytes come from the caller: this package does not talk to a cluster.
"""

import os
import re
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Final

import msgspec

from pinnace.aio.blocking import in_thread
from pinnace.api.velero.storage_location import BackupStorageLocation, SecretKeySelector
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.own_settings import KEY_FILE, secret_of

NAMED_FILE: Final = "credentialsFile"
"""The key of a store's configuration that names its credentials file."""

IGNORED_FILE: Final = (
    f"config.{NAMED_FILE} is ignored, as it could name any file of the server's pod: name a Secret in "
    "spec.credential instead"
)
"""Said where an object of the cluster has that key. (ADR 100)"""

ReadSecret = Callable[[str], Awaitable[Mapping[str, bytes] | None]]
"""Gets the decoded data of a Secret in the server's namespace by its name; None if there is no such Secret.
It raises StoreConfigError with the API's text if the Secret cannot be read."""

_NAME = re.compile(r"[-._a-zA-Z0-9]+")


class CredentialsStore:
    """Files with credentials below `<root>/<namespace>/`, readable by this user alone.

    A file is replaced as a whole, so that a reader sees the old or the new credentials and nothing between.
    """

    def __init__(self, root: Path, namespace: str) -> None:
        """Args:
        root: the directory of all namespaces; made with mode 0700.
        namespace: the server's.
        """
        self._root = root
        self._namespace = _checked(namespace)

    def path(self, secret: str, key: str) -> Path:
        """The file of one key of a Secret.

        Its name is `<secret>-<key>`, as Velero's; where the Secret's name has a `-`, `~` (which neither can
        contain) keeps the Secret `a-b` with key `c` apart from `a` with key `b-c`.
        """
        separator = "~" if "-" in secret else "-"
        return self._root / self._namespace / f"{_checked(secret)}{separator}{_checked(key)}"

    async def save(self, secret: str, key: str, data: bytes) -> Path:
        """Write the bytes of a Secret's key, replacing what was there, and return the file's path.

        Raises:
            StoreConfigError: the file cannot be written, or its directory belongs to another user.
        """
        path = self.path(secret, key)
        await in_thread(_write, self._root, path, data)
        return path

    async def remove(self, path: Path) -> None:
        """Remove a file that save() returned; a missing one is success."""
        await in_thread(path.unlink, missing_ok=True)


def without_named_file(location: BackupStorageLocation) -> BackupStorageLocation:
    """The location as a server opens it: only Secrets are its credentials and keys. (docs/spec: AFT 7.7)"""
    files = {NAMED_FILE, KEY_FILE}
    if not files & location.spec.config.keys():
        return location
    config = {key: value for key, value in location.spec.config.items() if key not in files}
    return msgspec.structs.replace(location, spec=msgspec.structs.replace(location.spec, config=config))


async def resolve_credentials(
    location: BackupStorageLocation, store: CredentialsStore, read_secret: ReadSecret, *, namespace: str
) -> Path | None:
    """Write the credential of a location to its file; None if the location has none of its own.

    Args:
        namespace: where the Secret is looked for, for the message.

    Raises:
        StoreConfigError: `unable to get credentials: …`
    """
    return await save_credential(location.spec.credential, store, read_secret, namespace=namespace)


async def save_credential(
    selector: SecretKeySelector | None,
    store: CredentialsStore,
    read_secret: ReadSecret,
    *,
    namespace: str,
) -> Path | None:
    """Write the key that a selector names to its file; None for no selector, or one without a name.

    Raises:
        StoreConfigError: `unable to get credentials: …`
    """
    if selector is None or not selector.name:
        return None
    try:
        data = await _secret_value(selector, read_secret, namespace)
        return await store.save(selector.name, selector.key, data)
    except StoreConfigError as error:
        raise StoreConfigError(f"unable to get credentials: {error}") from error


async def with_ca_cert(
    location: BackupStorageLocation, read_secret: ReadSecret, *, namespace: str
) -> BackupStorageLocation:
    """The location with the CA bundle that its `caCertRef` names. (docs/spec: BEY 7.3)

    Raises:
        StoreConfigError: the bundle cannot be read, or `caCert` is set too; the first texts are Velero's.
    """
    storage = location.spec.object_storage
    selector = storage.ca_cert_ref
    if selector is None or not selector.name:
        return location
    if storage.ca_cert:
        raise StoreConfigError("cannot specify both caCert and caCertRef in objectStorage")
    try:
        bundle = await _secret_value(selector, read_secret, namespace)
    except StoreConfigError as error:
        raise StoreConfigError(f"unable to get the CA bundle of caCertRef: {error}") from error
    changed = msgspec.structs.replace(storage, ca_cert=bundle, ca_cert_ref=None)
    return msgspec.structs.replace(
        location, spec=msgspec.structs.replace(location.spec, object_storage=changed)
    )


async def signing_key_of(
    location: BackupStorageLocation, read_secret: ReadSecret, *, namespace: str
) -> bytes | None:
    """The private key that signs the backups of a location, as PEM; None if its config names no Secret.

    Raises:
        StoreConfigError: the Secret cannot be read, or lacks the key.
    """
    if (named := secret_of(location.spec.config)) is None:
        return None
    try:
        return await _secret_value(SecretKeySelector(name=named[0], key=named[1]), read_secret, namespace)
    except StoreConfigError as error:
        raise StoreConfigError(f"unable to get the signing key: {error}") from error


async def _secret_value(selector: SecretKeySelector, read_secret: ReadSecret, namespace: str) -> bytes:
    what = "unable to get key for secret"
    try:
        secret = await read_secret(selector.name)
    except StoreConfigError as error:
        raise StoreConfigError(f"{what}: {error}") from error
    if secret is None:
        raise StoreConfigError(f'{what}: Secret "{selector.name}" not found in namespace "{namespace}"')
    if selector.key not in secret:
        raise StoreConfigError(f'{what}: "{selector.name}" secret is missing data for key "{selector.key}"')
    return secret[selector.key]


def _checked(part: str) -> str:
    """A part of a path that came from a cluster object; must not lead elsewhere."""
    if not _NAME.fullmatch(part) or part in (".", ".."):
        raise StoreConfigError(f"{part[:253]!r} cannot be part of the name of a credentials file")
    return part


def _write(root: Path, path: Path, data: bytes) -> None:
    try:
        for directory in (root, path.parent):
            _make_private(directory)
        descriptor, name = mkstemp(dir=path.parent, prefix=".")  # mode 0600
    except OSError as error:
        raise StoreConfigError(f"unable to open credentials file for writing: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise StoreConfigError(f"unable to write credentials to store: {error.strerror}") from error


def _make_private(directory: Path) -> None:
    """Make sure that a directory is ours: any user may be able to create names in its parent."""
    directory.mkdir(mode=0o700, exist_ok=True, parents=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise StoreConfigError(f"the directory {directory.name!r} for credentials belongs to another user")
    directory.chmod(0o700)

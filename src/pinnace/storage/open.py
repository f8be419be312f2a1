"""Opens the store of a BackupStorageLocation. (docs/spec: STO 8)

Opening makes no connection; a store is opened for each operation, so that it uses rotated credentials.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationAccessMode
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption, hides_details_of, kms_keys_of, recipients_of
from pinnace.storage.errors import InvalidLocation, StoreConfigError
from pinnace.storage.interface import ObjectStore
from pinnace.storage.layout import Layout, clean_bucket, clean_prefix
from pinnace.storage.object_lock import LOCK_SETTINGS, object_lock_of
from pinnace.storage.own_settings import OWN_SETTINGS, signatures_of
from pinnace.storage.provider import Opening
from pinnace.storage.providers import PROVIDERS, qualified_provider
from pinnace.storage.settings import SET_BY_THE_LOCATION
from pinnace.store_access.addresses import Addresses, IPNetwork, addresses_of

if TYPE_CHECKING:
    from pinnace.kms.access import KMSAccess

OtherStores = Callable[[str, Mapping[str, str]], ObjectStore | None]
"""Opens the store of a provider that is not built in, by its full name; None if it does not know it."""

_NOT_OF_THE_STORE = OWN_SETTINGS | {"resticRepoPrefix", *LOCK_SETTINGS}


def store_config(location: BackupStorageLocation, *, credentials_file: Path | None = None) -> dict[str, str]:
    """The configuration that a store is opened with: a copy of the location's, and what the server sets.

    `resticRepoPrefix` and our own settings are left out: they are not the store's. (docs/spec: STO 8, 14.4)

    Raises:
        InvalidLocation: no bucket, no provider, or a bucket with a slash inside.
        StoreConfigError: `config` has another bucket or prefix than `objectStorage`.
    """
    storage = location.spec.object_storage
    if not storage.bucket:
        raise InvalidLocation("backup storage location does not use object storage")
    if not location.spec.provider:
        raise InvalidLocation("object storage provider name must not be empty")
    config = {key: value for key, value in location.spec.config.items() if key not in _NOT_OF_THE_STORE}
    place = {"bucket": clean_bucket(storage.bucket), "prefix": clean_prefix(storage.prefix).rstrip("/")}
    for key in SET_BY_THE_LOCATION:
        if key in config and config[key].strip("/") != place[key]:
            raise StoreConfigError(
                f"config.{key} is not a setting: the {key} belongs in spec.objectStorage.{key}: move it there"
            )
    config |= place
    if storage.ca_cert:
        try:
            config["caCert"] = storage.ca_cert.decode("ascii")
        except UnicodeDecodeError as error:
            raise StoreConfigError("caCert is not a PEM certificate bundle") from error
    if credentials_file is not None:
        config["credentialsFile"] = str(credentials_file)
    return config


def open_object_store(
    provider: str,
    config: Mapping[str, str],
    *,
    create: bool = False,
    environ: Mapping[str, str] = os.environ,
    others: OtherStores | None = None,
    addresses: Addresses | None = None,
) -> ObjectStore:
    """Open the store of a provider; the caller closes it.

    Args:
        provider: its name, `aws` or `velero.io/aws`.
        config: as store_config() gives it.
        create: a directory that does not exist is an empty store and made when it is needed. Not for a
            server: a missing one means there that it is not mounted. Buckets are never made.
        environ: where credentials are looked for if the configuration names none.
        others: opens stores that are not built in, as those of plugins; their addresses are not checked.
        addresses: where connections may go; None is anywhere.

    Raises:
        StoreConfigError: the provider is unknown, or its configuration or credentials are wrong.
        StoreUnavailable: the directory does not exist.
    """
    name = qualified_provider(provider)
    if (known := PROVIDERS.get(name)) is not None:
        return known.open(config, Opening(create=create, environ=environ, addresses=addresses))
    if others is not None and (store := others(name, config)) is not None:
        return store
    raise StoreConfigError(f"unable to locate ObjectStore plugin named {name}{_hint(name)}")


def _hint(name: str) -> str:
    """The built-in provider that was probably meant; empty if none is close."""
    built_in = {known.short_name: known.name for known in PROVIDERS.values()}
    close = get_close_matches(name.rpartition("/")[2], built_in, n=1)
    return f"; did you mean {built_in[close[0]]}?" if close else ""


def open_backup_store(
    location: BackupStorageLocation,
    *,
    credentials_file: Path | None = None,
    create: bool = False,
    environ: Mapping[str, str] = os.environ,
    others: OtherStores | None = None,
    own_networks: Sequence[IPNetwork] = (),
) -> BackupStore:
    """Open a location; the caller closes the result, which is an async context manager.

    Connections to a tenant's location go to public addresses only, and to what its annotation allows.

    Args:
        credentials_file: of the location's own credential (see credentials_store.py), None if it has none.
        create: as for open_object_store().
        environ: where credentials are looked for otherwise.
        others: as for open_object_store().
        own_networks: of the cluster, for a tenant's location.

    Raises:
        StorageError: the location cannot be used as it is configured.
    """
    signatures = signatures_of(location.spec.config)
    encryption = Encryption(
        recipients=recipients_of(location.spec.config, is_tenants=bool(tenant_of(location.metadata))),
        kms_keys=kms_keys_of(location.spec.config),
        hides_details=hides_details_of(location.spec.config),
        kms_access=partial(_kms_access, location, credentials_file, environ, own_networks),
    )
    if encryption.kms_keys and tenant_of(location.metadata):
        rights = _kms_access(location, credentials_file, environ, own_networks)
        for key in encryption.kms_keys:
            rights.file_for(key)  # else the first backup would find out that it may not be used
    store = open_object_store(
        location.spec.provider or "",
        store_config(location, credentials_file=credentials_file),
        create=create,
        environ=environ,
        others=others,
        addresses=addresses_of(location, own_networks),
    )
    return (
        BackupStore(
            store,
            Layout(clean_prefix(location.spec.object_storage.prefix)),
            location=location.metadata.name,
            read_only=location.spec.access_mode == BackupStorageLocationAccessMode.READ_ONLY,
        )
        .locked(object_lock_of(location.spec.config))
        .signed(signatures)
        .encrypted(encryption)
    )


def _kms_access(
    location: BackupStorageLocation,
    credentials_file: Path | None,
    environ: Mapping[str, str],
    own_networks: Sequence[IPNetwork],
) -> "KMSAccess":
    """The rights to keys of services: those of the location for its own cloud, else those of the process."""
    # Loaded here: few locations have keys in a service, and it loads HTTP.
    from pinnace.kms.access import KMSAccess

    config, provider = location.spec.config, PROVIDERS.get(qualified_provider(location.spec.provider or ""))
    named = config.get("credentialsFile", "")
    return KMSAccess(
        environ=environ,
        cloud=provider.short_name if provider is not None else "",
        credentials_file=credentials_file or (Path(named).expanduser() if named else None),
        profile=config.get("profile", ""),
        is_tenants=bool(tenant_of(location.metadata)),
        addresses=addresses_of(location, own_networks),
    )

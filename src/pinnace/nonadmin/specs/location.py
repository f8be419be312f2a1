"""The checks of a tenant's storage location, and the spec of the BackupStorageLocation made for it. Pure.

(docs/spec: NAC 6.3, 12.3, 17 A16-A20)
"""

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_part
from pinnace.api.nonadmin.restore_limits import MAX_SPEC_BYTES
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.durations import Duration
from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.nonadmin.objects import is_too_large, present
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.specs.credentials import credentials_problem
from pinnace.nonadmin.specs.enforcement import filled_in, location_violation
from pinnace.storage.object_lock import LOCK_SETTINGS
from pinnace.storage.own_settings import KMS_KEYS, RECIPIENTS
from pinnace.storage.providers import PROVIDERS
from pinnace.store_access.addresses import Addresses, AddressRefused, parse_allowed

_PREFIX: Final = "NonAdminBackupStorageLocation spec.bslSpec"

ALLOWED_CONFIG: Final = {
    each.short_name: {*each.tenants.settings, *LOCK_SETTINGS, RECIPIENTS, KMS_KEYS}
    for each in PROVIDERS.values()
    if each.tenants is not None
}
"""The providers that tenants may use, and their settings that affect only the tenant's store."""

_METADATA_HOSTS: Final = ("metadata", "metadata.google.internal")
MAX_PREFIX_CHARACTERS: Final = 512
MIN_VALIDATION_FREQUENCY: Final = Duration.seconds(10)
"""The shortest period of validation: below it, one location would keep the server busy."""


def location_spec_of(non_admin_location: JSONObject) -> JSONObject:
    """The spec that the tenant wrote, without nulls; empty if it is not a map."""
    return present(mapping(non_admin_location, "spec", "backupStorageLocationSpec"))


def location_problem(non_admin_location: JSONObject, settings: AdminSettings, server_namespace: str) -> str:
    """Why a location is refused, by the first check that fails; empty if valid. Not for credentials."""
    if text(non_admin_location, "metadata", "namespace") == server_namespace:
        return "NonAdminBackupStorageLocation can not be used in the namespace of the server"
    if not isinstance(mapping(non_admin_location, "spec").get("backupStorageLocationSpec"), dict):
        return f"{_PREFIX} is not set"
    spec = location_spec_of(non_admin_location)
    if is_too_large(spec):
        return f"{_PREFIX} is larger than {MAX_SPEC_BYTES} bytes"
    try:
        decode(BackupStorageLocationSpec, spec)
    except DecodeError as error:
        return f"{_PREFIX} can not be read: {error.path}: {error.problem}"
    if spec.get("default"):
        return "NonAdminBackupStorageLocation cannot be used as a default BSL"
    if spec.get("credential") is None:
        return f"{_PREFIX}.credential is not set"
    if not text(spec, "credential", "name") or not text(spec, "credential", "key"):
        return f"{_PREFIX}.credential.name or spec.bslSpec.credential.key is not set"
    return (
        _period_problem(spec, settings)
        or location_violation(settings.location, spec)
        or "; ".join(check_part(BackupStorageLocationSpec, spec, _PREFIX).errors)
        or _reach_problem(spec, settings)
    )


def secret_problem(non_admin_location: JSONObject, secret: JSONObject | None, settings: AdminSettings) -> str:
    """Why the credentials are refused; empty if they are valid."""
    spec = location_spec_of(non_admin_location)
    name, key = text(spec, "credential", "name"), text(spec, "credential", "key")
    if "/" in name:
        return f"{_PREFIX}.credential.name is not the name of a Secret"
    if secret is None:
        return f'BSL credentials secret not found: Secret "{name}" not found'
    return credentials_problem(
        _provider(filled_in(BackupStorageLocationSpec, settings.location, spec)), secret, key
    )


def _period_problem(spec: JSONObject, settings: AdminSettings) -> str:
    given = text(spec, "backupSyncPeriod") or text(settings.location, "backupSyncPeriod")
    period = Duration.parse(given) if given else settings.velero_sync_period
    if period < Duration():
        return f"{_PREFIX}.backupSyncPeriod can not be negative"
    if settings.sync_period and period >= settings.sync_period:
        return (
            f"NABSL spec.backupStorageLocationSpec.backupSyncPeriod ({period}) can not be greater or equal "
            f"non admin backupSyncPeriod ({settings.sync_period})"
        )
    return ""


def _reach_problem(spec: JSONObject, settings: AdminSettings) -> str:
    """Why the spec is refused: it would let the server act outside the tenant's own bucket; empty if not."""
    store, config = mapping(spec, "objectStorage"), mapping(spec, "config")
    bucket, prefix = text(store, "bucket"), text(store, "prefix")
    if text(store, "caCertRef", "name"):
        return (
            f"{_PREFIX}.objectStorage.caCertRef is not supported (it names a Secret of the server's "
            "namespace): write the CA bundle into caCert"
        )
    if "/" in bucket or not bucket.isprintable():
        return f"{_PREFIX}.objectStorage.bucket is not the name of a bucket"
    if not is_plain_prefix(prefix):
        return (
            f"{_PREFIX}.objectStorage.prefix can not be used: it may not begin or end with a slash, "
            'nor have parts that are empty, "." or ".."'
        )
    frequency = Duration.parse(text(spec, "validationFrequency") or "0s")
    is_enforced = bool(text(settings.location, "validationFrequency"))
    if not is_enforced and Duration() < frequency < MIN_VALIDATION_FREQUENCY:
        return f"{_PREFIX}.validationFrequency can not be shorter than {MIN_VALIDATION_FREQUENCY}"
    provider = _provider(filled_in(BackupStorageLocationSpec, settings.location, spec))
    if provider not in ALLOWED_CONFIG:
        if text(settings.location, "provider"):
            return ""
        return f"{_PREFIX}.provider can not be used, only: {', '.join(ALLOWED_CONFIG)}"
    if settings.location.get("config"):
        return ""
    for name in sorted(config):
        if name not in ALLOWED_CONFIG[provider]:
            return f"{_PREFIX}.config is restricted, can not contain {name[:63]!r}"
    allowed = parse_allowed(settings.endpoints())
    for name in ("s3Url", "publicUrl"):
        if name in config and (problem := _url_problem(text(config, name), allowed)):
            return f"{_PREFIX}.config.{name} {problem}"
    return ""


def nesting_problem(non_admin_location: JSONObject, others: Iterable[JSONObject]) -> str:
    """Why a location is refused beside an older one of its namespace; empty if it is not.

    A location whose folder holds another one is Unavailable: the folder of the other is not one of its own.
    """
    store, folder = _place(non_admin_location)
    for other in others:
        other_store, other_folder = _place(other)
        if store != other_store or _age(other) >= _age(non_admin_location) or folder == other_folder:
            continue
        if all(one == two for one, two in zip(folder, other_folder, strict=False)):
            name = text(other, "metadata", "name")
            return (
                f"{_PREFIX}.objectStorage can not be used: of this location and {name}, one would lie in the"
                " folder of the other; give each of them a prefix of its own"
            )
    return ""


def _place(non_admin_location: JSONObject) -> tuple[tuple[str, ...], Sequence[str]]:
    """The store of a location, and its folder there."""
    spec = location_spec_of(non_admin_location)
    store, config = mapping(spec, "objectStorage"), mapping(spec, "config")
    prefix = text(store, "prefix")
    parts = (_provider(spec), text(config, "s3Url"), text(config, "storageAccount"), text(store, "bucket"))
    return parts, prefix.split("/") if prefix else ()


def _age(obj: JSONObject) -> tuple[str, str]:
    return text(obj, "metadata", "creationTimestamp"), text(obj, "metadata", "name")


def is_plain_prefix(prefix: str) -> bool:
    """Whether a prefix stays below the one that it is appended to. (docs/spec: NAC 17 A19)"""
    if not prefix:
        return True
    parts = prefix.split("/")
    return (
        prefix.isprintable()
        and "\\" not in prefix
        and len(prefix) <= MAX_PREFIX_CHARACTERS
        and not any(part in ("", ".", "..") for part in parts)
    )


def _url_problem(url: str, allowed: Addresses) -> str:
    """The mistake in a store's URL; empty if there is none. Connections check the resolved addresses."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https") or parts.username is not None:
        return "is not an http or https URL of a store"
    try:
        allowed.check_literal(host)
        if host.lower().rstrip(".") in _METADATA_HOSTS:
            allowed.check(host, ["169.254.169.254"])
    except AddressRefused as error:
        return f"can not be used: {error}"
    return ""


def _provider(spec: JSONObject) -> str:
    return text(spec, "provider").removeprefix("velero.io/")


def location_spec(non_admin_location: JSONObject, settings: AdminSettings, unique_id: str) -> JSONObject:
    """The BackupStorageLocation's spec for a location that was found valid. (docs/spec: NAC 12.3)"""
    spec = filled_in(BackupStorageLocationSpec, settings.location, location_spec_of(non_admin_location))
    namespace, prefix = (
        text(non_admin_location, "metadata", "namespace"),
        text(spec, "objectStorage", "prefix"),
    )
    spec["credential"] = {"name": unique_id, "key": text(spec, "credential", "key")}
    spec["objectStorage"] = {
        **mapping(spec, "objectStorage"),
        "prefix": f"{namespace}/{prefix}" if prefix else namespace,
    }
    return spec

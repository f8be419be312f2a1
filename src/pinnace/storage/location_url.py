"""Locations written as one text, for use without a server.

./backups   /mnt/backups   file:///mnt/backups
s3://bucket/prefix?region=…&s3Url=…&profile=…&credentialsFile=…&caCertFile=…
gs://bucket/prefix?credentialsFile=…&serviceAccount=…
azblob://container/prefix?storageAccount=…&resourceGroup=…&credentialsFile=…

Each but a bare path takes our own settings too (`own_settings`): ?signing.trustedKeys=…
"""

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from pinnace.aio.small_files import read_small_file
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
)
from pinnace.storage.errors import InvalidLocation
from pinnace.storage.filesystem import FILESYSTEM_PROVIDER
from pinnace.storage.layout import clean_prefix
from pinnace.storage.object_lock import LOCK_SETTINGS
from pinnace.storage.own_settings import ENVIRONMENT, URL_SETTINGS
from pinnace.storage.provider import StoreURL
from pinnace.storage.providers import PROVIDERS, qualified_provider

_CA_PARAMETER = "caCertFile"
_FORMS: Final = {each.url.scheme: (each.name, each.url) for each in PROVIDERS.values() if each.url}
"""The names of the providers that have a URL, and its form, by its scheme."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SHORT_SCHEME = re.compile(rf"({'|'.join(_FORMS)}):", re.IGNORECASE)


def location_title(location: BackupStorageLocation) -> str:
    """The location as a person names it: its folder, or its URL without parameters."""
    storage, provider = location.spec.object_storage, qualified_provider(location.spec.provider or "")
    if provider == FILESYSTEM_PROVIDER:
        return str(Path(location.spec.config["path"]) / storage.bucket)
    form = _form_of(provider)
    return f"{form.scheme if form else provider}://{storage.bucket}/{storage.prefix}".rstrip("/")


_MEANT: Final = {scheme: meant for _, form in _FORMS.values() for scheme, meant in form.others.items()}
"""The URL that users of other programs mean, by the scheme that they write."""


def _form_of(provider: str) -> StoreURL | None:
    known = PROVIDERS.get(provider)
    return known.url if known is not None else None


def url_of(location: JSONObject) -> str:
    """The URL of a cluster's BackupStorageLocation, without credentials; empty for a folder."""
    form = _form_of(qualified_provider(text(location, "spec", "provider")))
    bucket = text(location, "spec", "objectStorage", "bucket")
    if form is None or not bucket:
        return ""
    prefix = text(location, "spec", "objectStorage", "prefix").strip("/")
    config = mapping(location, "spec", "config")
    query = urlencode({key: config[key] for key in form.shown if config.get(key)}, safe=":/")
    return f"{form.scheme}://{bucket}{f'/{prefix}' if prefix else ''}{f'?{query}' if query else ''}"


def location_from_url(url: str, *, name: str = "default", namespace: str = "velero") -> BackupStorageLocation:
    """The location that a URL or a path describes; reads the file that `caCertFile` names.

    Args:
        name, namespace: of the object that is returned; it exists in no cluster.

    Raises:
        InvalidLocation: an unknown scheme or parameter, or a part that is missing; the text says which, and
            never repeats credentials in the URL.
    """
    location = _location_from_url(url, name=name, namespace=namespace)
    for variable, setting in ENVIRONMENT.items():
        if value := os.environ.get(variable):
            location.spec.config.setdefault(setting, value)
    return location


def _location_from_url(url: str, *, name: str, namespace: str) -> BackupStorageLocation:
    if not url:
        raise InvalidLocation("the location must not be empty")
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match is not None else ""
    if scheme == "":
        if (short := _SHORT_SCHEME.match(url)) is not None:
            raise InvalidLocation(f"a URL has two slashes, as in {short[1].lower()}://bucket/prefix")
        scheme = url.partition(":")[0].lower()
        if scheme == "file" and not Path(url).exists():
            raise InvalidLocation("write file:///PATH, with three slashes, or the path alone")
        if ":" in url and scheme in _MEANT and not Path(url).exists():
            raise InvalidLocation(f"{scheme}: is no scheme of a location; did you mean {_MEANT[scheme]}?")
        spec = _directory_spec(Path(url))
    elif scheme == "file":
        parts = urlsplit(url)
        spec = _directory_spec(_file_path(parts))
        spec.config.update(_parameters(parts.query, "file URL", URL_SETTINGS))
    elif scheme in _FORMS:
        spec = _bucket_spec(urlsplit(url), *_FORMS[scheme])
    else:
        meant = _MEANT.get(scheme, "")
        *others, last = [form.example for _, form in _FORMS.values()]
        raise InvalidLocation(
            f"unknown scheme {scheme!r} in the location{f'; did you mean {meant}?' if meant else ':'} use a"
            f" directory, file:///directory, {', '.join(others)} or {last}"
        )
    return BackupStorageLocation(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def _directory_spec(path: Path) -> BackupStorageLocationSpec:
    """`path` may be relative or begin with `~`; it is made absolute, so that it means one directory."""
    # Not by pathlib, which raises RuntimeError for a loop of links and for an unknown user behind `~`.
    directory = Path(os.path.realpath(os.path.expanduser(path)))
    if not directory.name or "\0" in str(directory):
        raise InvalidLocation(f"the location {str(directory)!r} cannot hold backups: name a directory in it")
    return BackupStorageLocationSpec(
        provider=FILESYSTEM_PROVIDER,
        config={"path": str(directory.parent)},
        object_storage=ObjectStorageLocation(bucket=directory.name),
    )


def _file_path(url: SplitResult) -> Path:
    if url.netloc not in ("", "localhost") or not url.path:
        raise InvalidLocation("a file URL has three slashes and an absolute path, as in file:///mnt/backups")
    if url.fragment or (url.query and "=" not in url.query):
        raise InvalidLocation("a file URL has no # part; write ? and # in names as %3F and %23")
    return Path(unquote(url.path))


def _bucket_spec(url: SplitResult, provider: str, form: StoreURL) -> BackupStorageLocationSpec:
    if "@" in url.netloc:
        raise InvalidLocation(f"{form.article} {form.title} must not contain credentials: use {form.instead}")
    if not url.netloc:
        raise InvalidLocation(f"{form.article} {form.title} names a {form.holder}, as in {form.example}")
    if url.fragment:
        raise InvalidLocation(f"{form.article} {form.title} has no # part; write # as %23")
    known = (*form.parameters, _CA_PARAMETER, *URL_SETTINGS, *LOCK_SETTINGS)
    config = _parameters(url.query, form.title, known)
    ca_file = config.pop(_CA_PARAMETER, "")
    if credentials_file := config.get("credentialsFile"):
        config["credentialsFile"] = os.path.abspath(os.path.expanduser(credentials_file))
    return BackupStorageLocationSpec(
        provider=provider,
        config=config,
        object_storage=ObjectStorageLocation(
            bucket=unquote(url.netloc),
            prefix=clean_prefix(unquote(url.path)).rstrip("/"),
            ca_cert=_read_certificate(ca_file) if ca_file else b"",
        ),
    )


def _parameters(query: str, title: str, known: tuple[str, ...]) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise InvalidLocation(
            f"the parameters of the {title} must look like name=value&name=value"
        ) from error
    names = [parameter for parameter, _ in pairs]
    if unknown := sorted(set(names) - set(known)):
        raise InvalidLocation(
            f"unknown parameters [{' '.join(unknown)}] in the {title}; known are [{' '.join(known)}]"
        )
    if len(set(names)) != len(names):
        raise InvalidLocation(f"a parameter of the {title} is given twice")
    return dict(pairs)


def _read_certificate(text: str) -> bytes:
    try:
        return read_small_file(Path(os.path.expanduser(text)))
    except OSError as error:
        raise InvalidLocation(f"cannot read {_CA_PARAMETER} {text!r}: {error.strerror}") from error

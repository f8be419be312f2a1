"""Values of a provider's configuration, which are all texts. (docs/spec: STO 14)"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pinnace.storage.errors import StoreConfigError

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False", ""})


SET_BY_THE_LOCATION: Final = ("bucket", "prefix")
"""Settings of every store that come from `spec.objectStorage`, and not from the user's `config`."""


def check_keys(
    config: Mapping[str, str], valid: Collection[str], *, refused: Mapping[str, str] | None = None
) -> None:
    """Raise StoreConfigError for unknown keys, such as misspelt ones.

    Args:
        refused: keys of Velero's plugin that are not obeyed, each with the reason and what to do. One whose
            value asks for nothing passes.
    """
    not_obeyed = refused or {}
    for key in sorted(config.keys() & not_obeyed.keys()):
        if parse_bool(config[key]) is not False:
            raise StoreConfigError(f"config.{key} is not supported: {not_obeyed[key]}")
    config = {key: value for key, value in config.items() if key not in not_obeyed}
    if unknown := sorted(config.keys() - set(valid)):
        raise StoreConfigError(
            f"config has invalid keys [{' '.join(unknown)}]; valid keys are"
            f" [{' '.join(key for key in valid if key not in SET_BY_THE_LOCATION)}]"
        )


def parse_bool(text: str) -> bool | None:
    """The truth value that Go's parser sees in a text; an empty one is False, None is neither."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def service_url(key: str, url: str) -> str:
    """A service's URL without a slash at its end, https where it has no scheme; an empty one stays empty.

    Raises:
        StoreConfigError: it is no http or https URL of a host.
    """
    if not url:
        return ""
    complete = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(complete)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.username is not None or parts.query or parts.fragment:
        shown = url.rpartition("@")[2].partition("?")[0]  # credentials in it stay out of texts
        raise StoreConfigError(f"{key} {shown!r} is not the URL of a service, such as https://host")
    return complete.rstrip("/")


def existing_file(text: str) -> Path | None:
    """The credentials file that a configuration names. Raises StoreConfigError if it does not exist."""
    if not text:
        return None
    path = Path(os.path.expanduser(text))
    if not path.is_file():
        raise StoreConfigError("provided credentialsFile does not exist")
    return path

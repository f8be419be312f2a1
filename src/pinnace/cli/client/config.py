"""Reads and changes the client's config file; a broken file is an error here. (docs/spec: CLI 8.3)"""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pinnace.aio.small_files import read_small_file
from pinnace.api.objects import JSONObject
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.cli.declaring.types import BOOLEANS
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.settings import SETTINGS, config_path

NOT_SET = "<NOT SET>"


def load() -> JSONObject:
    """The settings; a missing file has none. Raises CommandError."""
    path = config_path()
    try:
        content = json.loads(read_small_file(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"cannot read the config file {path}: {reason}") from error
    if not isinstance(content, dict):
        raise CommandError(f"cannot read the config file {path}: it must hold one JSON object")
    return content


def save(settings: JSONObject) -> None:
    """Write the settings into a private file, completely or not at all. Raises CommandError."""
    # A link, as dotfile managers use them, stays one.
    path = Path(os.path.realpath(config_path()))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes files of mode 0600.
        descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
                file.write("\n")
            Path(part).rename(path)
        finally:
            Path(part).unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write the config file {path}: {error.strerror}") from error


def lines(settings: JSONObject, keys: Sequence[str]) -> Iterator[str]:
    """`key: value` of the named settings in their order, or of all, sorted."""
    for key in keys or sorted(settings):
        yield f"{key}: {_shown(settings[key]) if key in settings else NOT_SET}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def apply(settings: JSONObject, words: Sequence[str]) -> list[str]:
    """Change the settings by `KEY=VALUE` words; an empty value removes one. Returns the malformed words."""
    invalid = []
    for word in words:
        key, value = _pair(word)
        if value:
            settings[key] = value
        elif value is None:
            invalid.append(word)
        else:
            settings.pop(key, None)
    return invalid


def check_keys(words: Sequence[str]) -> None:
    """Refuse a key that is probably misspelt. One that is like no other may be for Velero's client.

    Raises:
        InvalidInput: nothing is to be stored.
    """
    for word in words:
        key, value = _pair(word)
        if value and key not in SETTINGS and (near := near_names(key, SETTINGS)):
            raise InvalidInput(f"there is no setting {key}{did_you_mean(near)} Nothing was stored")


def unknown(words: Sequence[str]) -> Iterator[str]:
    """A message for each `KEY=VALUE` word whose key no command reads; Velero's client may read it."""
    for word in words:
        key, value = _pair(word)
        if value and key not in SETTINGS:
            yield f"{key} is stored, but no command reads it; settings are {', '.join(SETTINGS)}"
        elif key == "exit-code" and value and value not in BOOLEANS:
            yield f"exit-code={value} is stored, but counts as false: write true or false"


def _pair(word: str) -> tuple[str, str | None]:
    """Key and value of a `KEY=VALUE` word; the value is None if the word is malformed."""
    key, *values = word.split("=")
    return key, values[0] if len(values) == 1 else None

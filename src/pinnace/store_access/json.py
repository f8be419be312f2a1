"""Parses the JSON answers of cloud services and their errors.

The services wrap errors in three ways: `{"error": {"code", "message"}}` (Google, Azure Resource Manager),
`{"error": "code", "error_description": "…"}` (OAuth), `{"code", "message"}` (some Azure providers).
"""

import json
from typing import Any

from pinnace.store_access.answers import status_text
from pinnace.store_access.errors import StorageError, StoreUnavailable
from pinnace.store_access.requests import RETRIED_STATUSES

_MAX_TEXT_CHARACTERS = 300


def json_object(body: bytes, what: str) -> dict[str, Any]:
    """The JSON object in an answer. Raises StorageError with a text that begins with `what`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StorageError(f"{what}: the answer is not a JSON object")
    return value


def json_error(what: str, status: int, body: bytes) -> StorageError:
    """The error for an answer with an error status; only code and message are shown."""
    code, message = error_texts(body)
    code = "" if code == str(status) else code
    text = f"{what}: {message or status_text(status)}{f' ({code})' if code else ''}"
    return StoreUnavailable(text) if status in RETRIED_STATUSES else StorageError(text)


def error_texts(body: bytes) -> tuple[str, str]:
    """Code and message of a refusal, empty where it has none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    if not isinstance(value, dict):
        return "", ""
    error = value.get("error", value)
    if isinstance(error, dict):
        return _line(error.get("code")), _line(error.get("message"))
    return _line(error), _line(value.get("error_description"))


def _line(value: object) -> str:
    text = str(value) if isinstance(value, str | int) else ""
    return " ".join(text.split())[:_MAX_TEXT_CHARACTERS]

"""Checks that a tenant's credentials contain only keys. Pure. (docs/spec: NAC 17 A17)

The files of cloud tools can also name programs to run, files to read, roles to assume and metadata services
to ask, all with the rights of the server's pod. So only known options pass; no value is shown.
"""

import base64
import binascii
import configparser
import json
from typing import Final

from pinnace.api.objects import JSONObject, mapping, text

_AWS_KEYS: Final = frozenset({"aws_access_key_id", "aws_secret_access_key", "aws_session_token"})
_AWS_NEEDED: Final = ("aws_access_key_id", "aws_secret_access_key")
_AZURE_KEYS: Final = frozenset(
    {
        "AZURE_SUBSCRIPTION_ID",
        "AZURE_TENANT_ID",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_RESOURCE_GROUP",
        "AZURE_CLOUD_NAME",
        "AZURE_STORAGE_ACCOUNT_ACCESS_KEY",
    }
)
_GCP_KEYS: Final = frozenset(
    {
        "type",
        "project_id",
        "private_key_id",
        "private_key",
        "client_email",
        "client_id",
        "auth_uri",
        "token_uri",
        "auth_provider_x509_cert_url",
        "client_x509_cert_url",
        "universe_domain",
    }
)
_GCP_TOKEN_URIS: Final = frozenset(
    {"https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token"}
)
MAX_BYTES: Final = 64 * 1024
MAX_SECRET_CHARACTERS: Final = 128 * 1024


def credentials_problem(provider: str, secret: JSONObject, key: str) -> str:
    """Why the credentials are refused; empty if they are valid.

    Args:
        provider: its short name.
        secret: the Secret as the API server has it.
        key: the key of the Secret's data that holds the credentials.
    """
    if sum(len(str(value)) for value in mapping(secret, "data").values()) > MAX_SECRET_CHARACTERS:
        # It is copied for each location that names it, and no quota of the tenant counts the copies.
        return f"BSL credentials secret holds more than {MAX_SECRET_CHARACTERS} characters"
    encoded = mapping(secret, "data").get(key)
    if encoded is None:
        return f"BSL credentials secret has no key {key}"
    try:
        content = base64.b64decode(text({"value": encoded}, "value"), validate=True)
        if len(content) > MAX_BYTES:
            return f"BSL credentials are longer than {MAX_BYTES} bytes"
        given = content.decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "BSL credentials are not UTF-8 text in base64"
    match provider:
        case "aws":
            return _aws_problem(given)
        case "gcp":
            return _gcp_problem(given)
        case "azure":
            return _azure_problem(given)
    return ""


def _aws_problem(given: str) -> str:
    parser = configparser.RawConfigParser(default_section="\0", strict=True)
    try:
        parser.read_string(given)
    except configparser.Error as error:
        return f"BSL credentials are not an AWS credentials file: {type(error).__name__}"
    for section in parser.sections():
        for option in parser.options(section):
            if option not in _AWS_KEYS:
                return f"BSL credentials contain {_short(option)}, only static keys are allowed"
    for option in _AWS_NEEDED:
        if not parser.has_section("default") or not parser.get("default", option, fallback="").strip():
            return f"BSL credentials have no {option} in the profile default"
    return ""


def _gcp_problem(given: str) -> str:
    try:
        document = json.loads(given)
    except (json.JSONDecodeError, RecursionError):
        return "BSL credentials are not a GCP key file"
    if text(document, "type") != "service_account":
        return "BSL credentials are not the key file of a service account, only static keys are allowed"
    for name in mapping(document):
        if name not in _GCP_KEYS:
            return f"BSL credentials contain {_short(name)}, only static keys are allowed"
    if text(document, "token_uri") not in _GCP_TOKEN_URIS:
        return "BSL credentials name a token_uri that is not Google's"
    return "" if text(document, "private_key") else "BSL credentials have no private_key"


def _azure_problem(given: str) -> str:
    for line in given.splitlines():
        name, separator, _ = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not separator or name.strip() not in _AZURE_KEYS:
            return f"BSL credentials contain {_short(name)}, only static keys are allowed"
    return ""


def _short(name: str) -> str:
    return repr(name[:40])

"""Checks that a credentials file of a tenant contains only keys. Pure. (docs/spec: NAC 17 A17)

Such files can also name programs to run, files to read, roles to assume and metadata services to ask, all
with the rights of the server's pod.
"""

import configparser
from typing import Final

from pinnace.storage.tenant_keys import shown_key

_KEYS: Final = frozenset({"aws_access_key_id", "aws_secret_access_key", "aws_session_token"})
_NEEDED: Final = ("aws_access_key_id", "aws_secret_access_key")


def credentials_problem(given: str) -> str:
    """Why the file is refused; empty if it contains static keys only."""
    parser = configparser.RawConfigParser(default_section="\0", strict=True)
    try:
        parser.read_string(given)
    except configparser.Error as error:
        return f"BSL credentials are not an AWS credentials file: {type(error).__name__}"
    for section in parser.sections():
        for option in parser.options(section):
            if option not in _KEYS:
                return f"BSL credentials contain {shown_key(option)}, only static keys are allowed"
    for option in _NEEDED:
        if not parser.has_section("default") or not parser.get("default", option, fallback="").strip():
            return f"BSL credentials have no {option} in the profile default"
    return ""

"""Explains refusals of clouds by the state of the credentials: expired, deleted, wrong, used too late. Pure.

The messages of clouds have codes for these states, which mean little to most readers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CredentialProblem:
    """A problem of credentials, and its remedy."""

    text: str
    remedy: str


_RENEW_AWS = (
    "get new ones: `aws sso login` or new temporary keys; a server needs keys that do not expire, or a role"
    " of its service account"
)
_KNOWN: Final[Sequence[tuple[re.Pattern[str], CredentialProblem]]] = tuple(
    (re.compile(pattern, re.IGNORECASE), CredentialProblem(text, remedy))
    for pattern, text, remedy in (
        (
            r"ExpiredToken|TokenRefreshRequired|security token included in the request is expired|"
            r"provided token has expired",
            "its AWS credentials have expired",
            _RENEW_AWS,
        ),
        (
            r"from sso|SSO (?:session|token)|UnauthorizedSSOToken",
            "its AWS sign-on has expired",
            "run `aws sso login`; a server needs keys, or a role of its service account",
        ),
        (
            r"InvalidAccessKeyId|InvalidClientTokenId|UnrecognizedClientException",
            "its AWS access key no longer exists, or is inactive",
            "make a new key, and write it into the Secret or the credentials file",
        ),
        (
            r"SignatureDoesNotMatch",
            "its secret access key is wrong",
            "write key and secret again; a line break or a space at the end counts too",
        ),
        (
            r"RequestTimeTooSkewed|RequestExpired|not yet valid|token used too early",
            "its requests are too old or too new when they arrive",
            "set the clock of the machine that sends them",
        ),
        (
            r"invalid_grant|Reauthentication is needed|Token has been expired or revoked",
            "its Google credentials have expired or were revoked",
            "make a new key of the service account, or run `gcloud auth application-default login`",
        ),
        (
            r"AADSTS7000222|client secret keys? .*expired",
            "its Azure client secret has expired",
            "make a new client secret of the application, and write it into the credentials",
        ),
        (
            r"AADSTS7000215|AADSTS700016|invalid_client",
            "its Azure client id or client secret is wrong",
            "compare AZURE_CLIENT_ID and AZURE_CLIENT_SECRET with the application",
        ),
        (
            r"Signature not valid in the specified time frame|Signed expiry time",
            "its Azure key or signed access is no longer valid",
            "make a new key or token of the storage account, or use a client of its own",
        ),
    )
)


def trouble_of(message: str) -> CredentialProblem | None:
    """The problem of credentials that a store's message reports; None if it reports no such problem."""
    return next((trouble for pattern, trouble in _KNOWN if pattern.search(message)), None)

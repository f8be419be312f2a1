"""Checks when the credentials of the kubeconfig expire. Pure, except for obtaining them."""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson

from pinnace.cli.doctor.findings import Finding, ok, problem, warning
from pinnace.kube.transport.config import ClusterConfig

CHECK = "credentials"
SOON = timedelta(days=7)
_REMEDY = "renew it where it was issued (for example: log in to the cloud again), then run this again"


@dataclass(frozen=True, slots=True)
class Expiry:
    """One credential and the moment from which it is refused."""

    what: str
    moment: datetime


async def read_expiries(config: ClusterConfig) -> list[Expiry]:
    """The expiries of client certificate and token, if they name one. Raises ConfigError."""
    credentials = await config.auth.credentials()
    found = []
    certificate = credentials.certificate or config.tls.certificate
    if certificate is not None and (moment := _of_certificate(certificate.certificate)):
        found.append(Expiry("the client certificate", moment))
    scheme, _, token = credentials.authorization.partition(" ")
    if scheme == "Bearer" and (moment := token_expiry(token)):
        found.append(Expiry("the token", moment))
    return found


def _of_certificate(pem: bytes) -> datetime | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        return None  # the connection shows whether it can be used at all


def token_expiry(token: str) -> datetime | None:
    """The `exp` of a JSON web token; None for a token of another kind or without one."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(int(claims["exp"]), UTC)
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError, OSError):
        return None


def judge(expiries: list[Expiry], user: str, now: datetime) -> list[Finding]:
    """A finding for each credential: expired, about to expire, or valid."""
    findings = []
    for expiry in expiries:
        name = f"{expiry.what} of {user or 'this user'}"
        when = f"{expiry.moment:%Y-%m-%d %H:%M} UTC"
        # A short-lived token is renewed all the time, so it may always expire soon.
        if expiry.moment <= now:
            findings.append(problem(CHECK, f"{name} expired at {when}", _REMEDY))
        elif expiry.moment - now < SOON and "certificate" in expiry.what:
            findings.append(warning(CHECK, f"{name} expires at {when}", _REMEDY))
        else:
            findings.append(ok(CHECK, f"{name} is valid until {when}"))
    return findings or [ok(CHECK, f"the credentials of {user or 'this user'} name no expiry")]

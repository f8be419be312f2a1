"""Checks when the credentials of the kubeconfig expire. Pure, except for obtaining them."""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson

from pinnace.api.objects import dump_json, text
from pinnace.doctor.findings import Finding, ok, problem, warning
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import APIStatusError, Forbidden, KubeError, Unauthorized
from pinnace.kube.transport.config import ClusterConfig
from pinnace.notices.codes import Code

CHECK = "credentials"
SOON = timedelta(days=7)
ANONYMOUS = "system:anonymous"
"""The API server's name for a user who shows no credentials."""
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REMEDY = "renew it where it was issued (for example: log in to the cloud again), then run this again"


@dataclass(frozen=True, slots=True)
class Expiry:
    """One credential and the moment of its expiry."""

    what: str
    moment: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """The credentials of a kubeconfig.

    Attributes:
        expiries: of those that name one.
        none: whether there are no credentials at all.
    """

    expiries: tuple[Expiry, ...] = ()
    none: bool = False

    def expired(self, now: datetime) -> bool:
        """Whether one of them is refused by now."""
        return any(expiry.moment <= now for expiry in self.expiries)


async def read_held(config: ClusterConfig) -> Held:
    """The client certificate and the token, and when they expire. Raises ConfigError."""
    credentials = await config.auth.credentials()
    found = []
    certificate = credentials.certificate or config.tls.certificate
    if certificate is not None and (moment := _of_certificate(certificate.certificate)):
        found.append(Expiry("the client certificate", moment))
    scheme, _, token = credentials.authorization.partition(" ")
    if scheme == "Bearer" and (moment := token_expiry(token)):
        found.append(Expiry("the token", moment))
    return Held(tuple(found), none=certificate is None and not credentials.authorization)


async def is_anonymous(client: KubeClient) -> bool:
    """Whether the API server takes this user for nobody; a proxy may have added credentials."""
    try:
        answer = orjson.loads(await client.request("POST", _REVIEWS, body=dump_json(_REVIEW)))
    except Forbidden as error:  # nobody may ask who they are
        return ANONYMOUS in str(error)
    except KubeError:
        return False  # before Kubernetes 1.28
    return text(answer, "status", "userInfo", "username") == ANONYMOUS


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


def judge(held: Held, user: str, now: datetime) -> list[Finding]:
    """A finding for each credential: expired, about to expire, or valid. None is left to the API server."""
    findings = []
    for expiry in held.expiries:
        name = f"{expiry.what} of {user or 'this user'}"
        when = f"{expiry.moment:%Y-%m-%d %H:%M} UTC"
        # A short-lived token is renewed all the time, so it may always expire soon.
        if expiry.moment <= now:
            code = Code.CREDENTIALS_EXPIRED
            findings.append(problem(CHECK, f"{name} expired at {when}", _REMEDY, code=code))
        elif expiry.moment - now < SOON and "certificate" in expiry.what:
            code = Code.CREDENTIALS_EXPIRING
            findings.append(warning(CHECK, f"{name} expires at {when}", _REMEDY, code=code))
        else:
            findings.append(ok(CHECK, f"{name} is valid until {when}"))
    if held.none or findings:
        return findings
    return [ok(CHECK, f"the credentials of {user or 'this user'} name no expiry")]


def judge_none(user: str) -> Finding:
    """The finding about a user without credentials, whom the cluster takes for nobody."""
    return problem(
        CHECK,
        f"{user or 'this user'} has no token, certificate or password: the cluster takes it for {ANONYMOUS}",
        "sign in, so that the kubeconfig gets credentials, or choose another context (--kubecontext)",
        code=Code.CREDENTIALS_MISSING,
    )


def judge_refusal(error: KubeError, held: Held, config: ClusterConfig, now: datetime) -> Finding:
    """The finding about a cluster that could not be used at all: the address, or the credentials."""
    user = config.user or "this user"
    said = f"{user} cannot reach the cluster: {error}"
    if not isinstance(error, APIStatusError):
        remedy = f"is {config.server} the right address, and is it up?"
        return problem("kubeconfig", said, remedy, code=Code.CLUSTER_UNREACHABLE)
    if held.none and isinstance(error, Unauthorized | Forbidden):
        return judge_none(user)
    said = f"{config.server} refuses {user}: {error}"
    remedy = "sign in again, or use another context (--kubecontext)"
    if held.expired(now):
        remedy = "the credentials have expired, as said above: renew them"
    return problem("kubeconfig", said, remedy, code=Code.CREDENTIALS_REFUSED)

"""The errors of talking to an API server.

    KubeError
    ├── ConfigError            kubeconfig, in-cluster files, sign-in set-up: names the file and the field
    ├── UnknownResource        discovery knows no such resource
    ├── NotLeading             a write was not sent, as another server may lead by now
    ├── ClientDefect           a defect of this package, not of the object that was sent
    ├── ConnectionFailed       no answer of the API server: unreachable, TLS refused, cut in mid-answer
    │   ├── InvalidResponse    an answer that is not the API server's, or not to this request
    │   ├── NotSent            never connected: the server cannot have acted
    │   ├── NotTrusted         TLS refused, by us or by the server
    │   └── DeadlineExceeded   no answer in time
    │       └── ExecTimeout    a command in a container did not end in time
    └── APIStatusError         the server answered with an error status
        ├── BadRequest 400, Unauthorized 401, Forbidden 403
        ├── NotFound 404
        │   └── InvalidName    a name that cannot stand in a request path; nothing was sent
        ├── AlreadyExists 409, Conflict 409, Gone 410, Invalid 422
        ├── TooManyRequests 429
        └── ServerFault        500 and above

Texts never hold a token, a password or a request header. A body that is no Kubernetes Status is cut
short, as it can be anything, a Secret included.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from pinnace.kube.refusals import cause_of
from pinnace.notices.codes import Code
from pinnace.notices.notice import Coded

SUSPECTS = "A proxy or a login page between this program and the API server may have answered in its place"
"""The parties that may answer in place of an API server, for error texts."""
_WEB_PAGE, _XML = "a web page", "an XML document"
_UNKNOWN_PATH = "404 page not found"
"""An API server's answer to an unknown path."""
_KIND = r"/apis?/(?:([^/?]+)/)?(v[0-9a-z]+)/(?:(?:watch/)?namespaces/[^/?]+/)?([^/?]+)"
"""The path of a kind, or of one of its objects: group, version, plural."""
_DOCUMENTS = (_WEB_PAGE, _XML)
UNKNOWN_BODY_CHARACTERS = 200
"""How much of an answer that is not a Status is shown."""


class KubeError(Coded, Exception):
    """Base of all errors of this package."""

    notice_code = Code.CLUSTER_FAULT


class ConfigError(KubeError):
    """The connection to the cluster is not configured, or wrongly."""

    notice_code = Code.CLUSTER_UNREACHABLE


class UnknownResource(KubeError):
    """The server has no such resource, or has it without the verbs a backup needs."""

    notice_code = Code.KIND_NOT_SERVED


class NotLeading(KubeError):
    """A write was not sent, as another server may lead by now: the fence of this one is closed."""

    notice_code = Code.LEADERSHIP_LOST


class ClientDefect(KubeError):
    """A request failed by a defect of this package: callers must not blame the object that they sent."""

    notice_code = Code.DEFECT


class ConnectionFailed(KubeError):
    """No answer of the API server: not connected, certificate refused, connection lost, or a false answer."""

    notice_code = Code.CLUSTER_UNREACHABLE


class InvalidResponse(ConnectionFailed):
    """An answer that is not the API server's: not JSON, truncated, another object's, an impossible status.

    Something between us and the API server sent it, so it is unknown whether the server acted.
    """


class NotSent(ConnectionFailed):
    """The connection was never made: the server cannot have acted."""


class NotTrusted(ConnectionFailed):
    """TLS refused, by us or by the server; trying again does not help."""


class DeadlineExceeded(ConnectionFailed):
    """No answer, or no further part of it, within the time allowed."""


class ExecTimeout(DeadlineExceeded):
    """A command in a container did not end within the time allowed; it may still be running."""


class APIStatusError(KubeError):
    """The server answered with an error status.

    Attributes:
        code: the HTTP status.
        reason: the machine-readable reason of the Status (`NotFound`), or "".
        message: the server's own words; also the text of the exception.
        status: the Status object as sent; empty if the body was none.
        retry_after_seconds: how long the server asks to wait, if it does.
        after_open_attempt: whether an earlier attempt at the same request got no answer but may have been
            carried out: that may be the reason for this refusal.
    """

    def __init__(
        self,
        code: int,
        *,
        reason: str = "",
        message: str = "",
        status: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.status: dict[str, Any] = dict(status or {})
        self.retry_after_seconds = retry_after_seconds
        self.after_open_attempt = False

    def cause(self) -> tuple[Code, Mapping[str, str]]:
        """The webhook, policy, quota or right that the server names."""
        return cause_of(self.message) or super().cause()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(code={self.code}, reason={self.reason!r}, message={self.message!r})"


class BadRequest(APIStatusError):
    """400: the request itself is wrong."""

    notice_code = Code.OBJECT_INVALID


class Unauthorized(APIStatusError):
    """401: our credentials are missing, wrong or expired, and could not be renewed."""

    notice_code = Code.CREDENTIALS_REFUSED


class Forbidden(APIStatusError):
    """403: authenticated, but not allowed."""

    notice_code = Code.RIGHTS_MISSING


class NotFound(APIStatusError):
    """404: no such object, resource or path."""

    notice_code = Code.OBJECT_NOT_FOUND


class InvalidName(NotFound, ValueError):
    """A name or namespace that no API server accepts as a path segment: empty, `.`, `..`, or with `/` or `%`.

    No object has it. Nothing was sent, and trying again does not help.
    """

    def __init__(self, message: str) -> None:
        super().__init__(404, reason="NotFound", message=message)


class AlreadyExists(APIStatusError):
    """409 on a create: the name is taken."""

    notice_code = Code.OBJECT_CONFLICT


class Conflict(APIStatusError):
    """409 otherwise: the object changed since it was read, or a precondition failed."""

    notice_code = Code.OBJECT_CONFLICT


class Gone(APIStatusError):
    """410: the resourceVersion or continue token is too old; list again."""


class Invalid(APIStatusError):
    """422: the object was understood and refused."""

    notice_code = Code.OBJECT_INVALID


class TooManyRequests(APIStatusError):
    """429: slow down; the server did not act."""


class ServerFault(APIStatusError):
    """500 and above: the server, or a server behind it, failed."""


PASSING_ERRORS: Final = (ConnectionFailed, ServerFault, TooManyRequests)
"""Errors that may not come again at the next try: never a reason to fail a Backup or Restore for good."""

_BY_CODE: dict[int, type[APIStatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def status_error(
    code: int, status: Mapping[str, Any], *, retry_after_seconds: float | None = None
) -> APIStatusError:
    """The typed exception for a Status object, from an answer or from an ERROR event of a watch."""
    reason = _text(status.get("reason"))
    message = _text(status.get("message")) or reason or f"the server answered with HTTP status {code}"
    if retry_after_seconds is None:
        retry_after_seconds = _retry_after(status)
    return _error_class(code, reason)(
        code, reason=reason, message=message, status=status, retry_after_seconds=retry_after_seconds
    )


def error_from_body(
    code: int, body: bytes, *, path: str, retry_after_seconds: float | None = None
) -> KubeError:
    """The typed exception for an answer that is no success, whatever its body is.

    Args:
        path: what was asked for; it names the kind that the cluster does not serve.

    A redirect, and a 404 that is not worded like an API server's, are `InvalidResponse`: otherwise a proxy's
    404 would make existing objects count as missing.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status":
        return status_error(code, document, retry_after_seconds=retry_after_seconds)
    excerpt = _readable(body[: 4 * UNKNOWN_BODY_CHARACTERS].decode("utf-8", "replace").strip())
    message = f"the server answered with HTTP status {code}"
    if excerpt:
        shown = excerpt[:UNKNOWN_BODY_CHARACTERS]
        message += f": {shown}{'...' if len(excerpt) > len(shown) else ''}"
    if code < 400 or (code == 404 and excerpt != _UNKNOWN_PATH):
        return InvalidResponse(f"{message}; this is not how an API server answers. {SUSPECTS}")
    if excerpt.startswith(_DOCUMENTS):
        message += f". {SUSPECTS}"
    if code == 404:
        message = f"the cluster does not serve {_kind_in(path)} (404 page not found)"
    return _error_class(code, "")(code, message=message, retry_after_seconds=retry_after_seconds)


def _kind_in(path: str) -> str:
    found = re.match(_KIND, path)
    if found is None:
        return "this path"
    group, version, plural = found.groups()
    return f"{plural}{f'.{group}' if group else ''} in version {version}"


def _readable(excerpt: str) -> str:
    """The excerpt of an answer; of a web page only the title, which says who answers; nothing of XML."""
    lower = excerpt.lower()
    if lower.startswith("<?xml"):
        return _XML
    if not lower.startswith(("<!doctype html", "<html")):
        return excerpt
    begin = lower.find("<title>") + len("<title>")
    end = lower.find("</title>", begin)
    title = " ".join(excerpt[begin:end].split()) if begin >= len("<title>") and end > begin else ""
    return f"{_WEB_PAGE} titled {title!r}" if title else _WEB_PAGE


def _error_class(code: int, reason: str) -> type[APIStatusError]:
    if code >= 500:
        return ServerFault
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    return _BY_CODE.get(code, APIStatusError)


def _retry_after(status: Mapping[str, Any]) -> float | None:
    details = status.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

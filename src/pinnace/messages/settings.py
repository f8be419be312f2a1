"""The settings of messages: one YAML document, in a Secret or a file. Pure. (docs/tasks/messages.md)

Errors name the place and never quote a value: URLs and headers are secrets.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from pinnace.api.objects import JSONObject, text
from pinnace.api.strict_yaml import read_yaml
from pinnace.api.values.digits import is_digits
from pinnace.messages.errors import MessageSettingsError
from pinnace.messages.problem import Cause
from pinnace.store_access.addresses import parse_allowed

DOCUMENT: Final = "messages.yaml"
"""The key of a Secret that has the document."""
MOST_SINKS: Final = 10
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"()\[\]\\\x00-\x1f\x7f]{1,64}@[A-Za-z0-9.-]{1,253}")
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")
TLS_MODES: Final = ("starttls", "implicit", "none")


class PingSettings(Struct, frozen=True, kw_only=True):
    """`{schedule}` in the URL stands for the name of the Schedule."""

    url: str
    ca_cert: str = ""


class WebhookSettings(Struct, frozen=True, kw_only=True):
    """Where CloudEvents are posted to."""

    url: str
    headers: Mapping[str, str] = {}
    ca_cert: str = ""


class AlertmanagerSettings(Struct, frozen=True, kw_only=True):
    """The URL is that of Alertmanager, without `/api/v2/alerts`."""

    url: str
    headers: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    ca_cert: str = ""


class SmtpSettings(Struct, frozen=True, kw_only=True):
    """A mail server. `tls` is one of `TLS_MODES`."""

    host: str
    port: int
    sender: str
    to: Sequence[str]
    tls: str
    username: str = ""
    password: str = ""
    ca_cert: str = ""


class AppriseSettings(Struct, frozen=True, kw_only=True):
    """A URL of Apprise."""

    url: str


Target = PingSettings | WebhookSettings | AlertmanagerSettings | SmtpSettings | AppriseSettings


class SinkSettings(Struct, frozen=True, kw_only=True):
    """One sink.

    Attributes:
        causes: what it is told of; empty for all.
        only_named: whether it is told only of Schedules whose annotation names it.
    """

    name: str
    target: Target
    causes: frozenset[Cause] = frozenset()
    only_named: bool = False


class TenantMessages(Struct, frozen=True, kw_only=True):
    """What the administrator allows tenants; the addresses as in `allowedEndpoints` of self-service."""

    allowed_endpoints: Sequence[str] = ()


class MessageSettings(Struct, frozen=True, kw_only=True):
    """One document.

    Attributes:
        cluster: the name of the cluster in messages; empty for its uid.
        tenants: None: Secrets of tenants are not read.
    """

    sinks: Sequence[SinkSettings] = ()
    cluster: str = ""
    tenants: TenantMessages | None = None


def parse_messages(document: str, *, of_tenant: bool = False) -> MessageSettings:
    """Read a document.

    Args:
        of_tenant: whether a tenant wrote it: no Apprise, no plain SMTP, no rules for tenants.

    Raises:
        MessageSettingsError: it cannot be read, or has what it may not have.
    """
    try:
        found = read_yaml(document)
    except ValueError as error:
        # The parser quotes what it does not understand, which may be a secret.
        raise MessageSettingsError("the document is not YAML with each key once") from error
    fields = _Fields(found, "the document", {"cluster", "sinks", "tenants"})
    sinks = fields.items("sinks")
    if len(sinks) > MOST_SINKS:
        raise MessageSettingsError(f"sinks: {len(sinks)} are too many, {MOST_SINKS} are allowed")
    made = [_sink(each, f"sinks[{number}]", of_tenant=of_tenant) for number, each in enumerate(sinks)]
    names = [each.name for each in made]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MessageSettingsError(f"sinks: the name {twice[0]} is there twice")
    rules = None
    if fields.has("tenants"):
        if of_tenant:
            raise MessageSettingsError("tenants: only an administrator can set it")
        given = _Fields(fields.value("tenants") or {}, "tenants", {"allowedEndpoints"})
        allowed = tuple(str(each) for each in given.items("allowedEndpoints"))
        try:
            parse_allowed(allowed)
        except ValueError as error:
            raise MessageSettingsError(f"tenants.allowedEndpoints: {error}") from error
        rules = TenantMessages(allowed_endpoints=allowed)
    cluster = fields.line("cluster", longest=100)
    return MessageSettings(sinks=tuple(made), cluster=cluster, tenants=rules)


class _Fields:
    def __init__(self, found: Any, place: str, known: set[str]) -> None:
        if not isinstance(found, dict):
            raise MessageSettingsError(f"{place} must be a mapping")
        self._found: dict[str, Any] = found
        self._place = place
        unknown = sorted(str(key) for key in found if key not in known)
        if unknown:
            raise MessageSettingsError(
                f"{place} has fields that are not known; there are {', '.join(sorted(known))}"
            )

    def has(self, name: str) -> bool:
        return name in self._found

    def value(self, name: str) -> Any:
        return self._found.get(name)

    def items(self, name: str) -> list[Any]:
        value = self._found.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(name, "must be a list")
        return value

    def text(self, name: str, *, default: str | None = "") -> str:
        value = self._found.get(name, default)
        if not isinstance(value, str) or (default is None and not value):
            raise self.wrong(name, "must be a text")
        return value

    def line(self, name: str, *, default: str | None = "", longest: int = 2000) -> str:
        value = self.text(name, default=default)
        if not value.isprintable() or len(value) > longest:
            raise self.wrong(name, f"must be one line of at most {longest} characters")
        return value

    def texts(self, name: str, pattern: re.Pattern[str]) -> dict[str, str]:
        value = self._found.get(name) or {}
        if not isinstance(value, dict) or not all(
            isinstance(key, str) and pattern.fullmatch(key) and isinstance(each, str) and each.isprintable()
            for key, each in value.items()
        ):
            raise self.wrong(name, "must map valid names to texts of one line")
        return value

    def url(self, name: str = "url") -> str:
        value = self.line(name, default=None)
        try:
            parts = urlsplit(value)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid or not value.isascii() or " " in value:
            raise self.wrong(name, "must be a URL that begins with http:// or https://")
        return value

    def headers(self) -> dict[str, str]:
        """The headers of requests to the URL."""
        found = self.texts("headers", _HEADER)
        if urlsplit(self.url()).username is not None and "authorization" in map(str.lower, found):
            raise self.wrong("headers", "must have no Authorization beside a URL with a user name")
        return found

    def wrong(self, name: str, why: str) -> MessageSettingsError:
        return MessageSettingsError(f"{self._place}.{name} {why}")


_TYPES: Final = ("ping", "webhook", "alertmanager", "smtp", "apprise")


def _sink(found: Any, place: str, *, of_tenant: bool) -> SinkSettings:
    fields = _Fields(found, place, {"name", "causes", "onlyNamed", *_TYPES})
    name = fields.line("name", default=None)
    if not _NAME.fullmatch(name):
        raise fields.wrong("name", "must have at most 40 of a-z, 0-9 and -")
    chosen = [each for each in _TYPES if fields.has(each)]
    if len(chosen) != 1:
        raise MessageSettingsError(f"{place} must have exactly one of {', '.join(_TYPES)}")
    try:
        causes = frozenset(Cause(each) for each in fields.items("causes"))
    except ValueError as error:
        raise fields.wrong("causes", f"can have {', '.join(Cause)}") from error
    only_named = fields.text("onlyNamed", default="false")
    if only_named not in ("true", "false"):
        raise fields.wrong("onlyNamed", "must be true or false")
    kind = chosen[0]
    if of_tenant and kind == "apprise":
        raise MessageSettingsError(f"{place}.apprise: only an administrator can use Apprise")
    target = _target(kind, fields.value(kind), f"{place}.{kind}", of_tenant=of_tenant)
    return SinkSettings(name=name, target=target, causes=causes, only_named=only_named == "true")


def _target(kind: str, found: Any, place: str, *, of_tenant: bool) -> Target:
    if kind == "ping":
        ping = _Fields(found, place, {"url", "caCert"})
        return PingSettings(url=ping.url(), ca_cert=ping.text("caCert"))
    if kind == "webhook":
        hook = _Fields(found, place, {"url", "headers", "caCert"})
        return WebhookSettings(url=hook.url(), headers=hook.headers(), ca_cert=hook.text("caCert"))
    if kind == "alertmanager":
        manager = _Fields(found, place, {"url", "headers", "labels", "caCert"})
        return AlertmanagerSettings(
            url=manager.url().rstrip("/"),
            headers=manager.headers(),
            labels=manager.texts("labels", _LABEL),
            ca_cert=manager.text("caCert"),
        )
    if kind == "apprise":
        return AppriseSettings(url=_Fields(found, place, {"url"}).line("url", default=None))
    return _smtp(found, place, of_tenant=of_tenant)


def _smtp(found: Any, place: str, *, of_tenant: bool) -> SmtpSettings:
    mail = _Fields(found, place, {"host", "port", "from", "to", "tls", "username", "password", "caCert"})
    host, port_text = mail.line("host", default=None), mail.line("port", default="587")
    if not _HOST.fullmatch(host):
        raise mail.wrong("host", "must be the name or address of a host")
    if not (is_digits(port_text) and 0 < int(port_text[:6]) < 65536):
        raise mail.wrong("port", "must be a number from 1 to 65535")
    port = int(port_text)
    tls = mail.line("tls", default="implicit" if port == 465 else "starttls")
    if tls not in TLS_MODES:
        raise mail.wrong("tls", f"must be one of {', '.join(TLS_MODES)}")
    sender, to = mail.line("from", default=None), mail.items("to")
    for field, each in (("from", sender), *(("to", each) for each in to)):
        if not isinstance(each, str) or not _ADDRESS.fullmatch(each):
            raise mail.wrong(field, "must be addresses such as ops@example.org")
    if not to:
        raise mail.wrong("to", "must have an address")
    username, password = mail.text("username"), mail.text("password")
    if tls == "none" and (username or of_tenant):
        raise mail.wrong("tls", "must not be none with a username, or for a tenant")
    return SmtpSettings(
        host=host,
        port=port,
        sender=sender,
        to=tuple(to),
        tls=tls,
        username=username,
        password=password,
        ca_cert=mail.text("caCert"),
    )


def document_of(secret: JSONObject) -> str:
    """The document in a Secret. Raises MessageSettingsError."""
    encoded = text(secret, "data", DOCUMENT)
    if not encoded:
        raise MessageSettingsError(f"the Secret has no key {DOCUMENT}")
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise MessageSettingsError(f"the key {DOCUMENT} of the Secret is not base64 of UTF-8") from error

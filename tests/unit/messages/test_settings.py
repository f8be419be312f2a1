"""The document of messages: what is read, and what is refused without quoting a secret."""

import pytest

from pinnace.messages.errors import MessageSettingsError
from pinnace.messages.problem import Cause
from pinnace.messages.settings import AlertmanagerSettings, PingSettings, SmtpSettings, parse_messages

WHOLE = """
cluster: production
sinks:
- name: ops
  webhook: {url: "https://hooks.example.org/x", headers: {Authorization: "Bearer abc"}}
  causes: [failure, missed-run]
- name: am
  alertmanager: {url: "http://alertmanager:9093/", labels: {team: backup}}
- name: mail
  smtp: {host: mail.example.org, from: a@example.org, to: [b@example.org], username: u, password: p}
- name: hc
  onlyNamed: true
  ping: {url: "https://hc-ping.com/KEY/{schedule}"}
- name: chat
  apprise: {url: "slack://a/b/c"}
tenants: {allowedEndpoints: [10.0.0.0/8, hooks.internal]}
"""


def test_a_whole_document_is_read() -> None:
    found = parse_messages(WHOLE)
    ops, am, mail, hc, _ = found.sinks
    assert found.cluster == "production"
    assert ops.causes == {Cause.FAILURE, Cause.MISSED_RUN}
    assert isinstance(am.target, AlertmanagerSettings)
    assert am.target.url == "http://alertmanager:9093"
    assert isinstance(mail.target, SmtpSettings)
    assert (mail.target.port, mail.target.tls) == (587, "starttls")
    assert isinstance(hc.target, PingSettings)
    assert hc.only_named
    assert found.tenants is not None
    assert found.tenants.allowed_endpoints == ("10.0.0.0/8", "hooks.internal")


SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (f"sinks: [{{name: a, webhook: {{url: 'ftp://{SECRET}'}}}}]", "sinks[0].webhook.url must be a URL"),
        (f"sinks: [{{name: a, webhook: {{url: 'https://x y/{SECRET}'}}}}]", "must be a URL"),
        (f"sinks: [{{name: a, webhook: {{url: 'https://[{SECRET}'}}}}]", "must be a URL"),
        (f"sinks: [{{name: a, {SECRET}: 1}}]", "fields that are not known"),
        (f"sinks: [{{name: a, webhook: {{url: 'http://a', headers: {{A: \"\\n{SECRET}\"}}}}}}]", "headers"),
        (f"sinks: [{{name: a, webhook: {{headers: {{'A b': {SECRET}}}, url: 'http://a'}}}}]", "headers"),
        (f"sinks: [{{name: a, webhook: {{headers: {{authorization: {SECRET}}}, url: 'http://u:{SECRET}@a'}}}}]",
         "headers must have no Authorization beside a URL with a user name"),
        (f"'{SECRET}': [", "is not YAML"),
        (f"sinks: {SECRET}", "sinks must be a list"),
        ("sinks: [{name: A, ping: {url: 'http://a'}}]", "sinks[0].name"),
        ("sinks: [{name: a, ping: {url: 'http://a'}, webhook: {url: 'http://a'}}]", "exactly one of"),
        ("sinks: [{name: a, ping: {url: 'http://a'}, causes: [bad]}]", "causes can have failure"),
        ("sinks: [{name: a, ping: {url: 'http://a'}}, {name: a, ping: {url: 'http://a'}}]", "there twice"),
        ("sinks: [{name: a, smtp: {host: h, from: a@b.c, to: [\"x@y.z\\nRCPT\"]}}]", "smtp.to"),
        ("sinks: [{name: a, smtp: {host: h, from: 'a@b.c>', to: [x@y.z]}}]", "smtp.from"),
        ("sinks: [{name: a, smtp: {host: h, from: a@b.c, to: []}}]", "smtp.to"),
        ("sinks: [{name: a, smtp: {host: h, from: a@b.c, to: [x@y.z], tls: none, username: u}}]", "smtp.tls"),
        ("sinks: [{name: a, smtp: {host: h, from: a@b.c, to: [x@y.z], port: '0'}}]", "smtp.port"),
        ("cluster: \"a\\nb\"", "cluster must be one line"),
        ("tenants: {allowedEndpoints: ['a b']}", "tenants.allowedEndpoints"),
        ("[]", "must be a mapping"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_not_quoted(document: str, place: str) -> None:
    with pytest.raises(MessageSettingsError) as caught:
        parse_messages(document)
    assert place in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "document",
    [
        "sinks: [{name: a, apprise: {url: 'json://169.254.169.254'}}]",
        "sinks: [{name: a, smtp: {host: h, from: a@b.c, to: [x@y.z], tls: none}}]",
        "tenants: {}",
    ],
)
def test_a_tenant_may_not_have_what_an_administrator_may(document: str) -> None:
    parse_messages(document)
    with pytest.raises(MessageSettingsError):
        parse_messages(document, of_tenant=True)

"""Secrets are redacted, and harmless values are kept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.messages.redaction import REDACTED, is_sensitive, redact_object, redact_text

SECRETS = st.text(alphabet="abcdefghjkmnpqrstuvwxyzABCDEFGH0123456789/+", min_size=16, max_size=40)
TEXTS = (
    "password=§",
    'level=error msg="cannot open: secret_access_key = §"',
    "AWS_SECRET_ACCESS_KEY=§",
    '{"password": "§"}',
    '{"clientSecret":"§","region":"r"}',
    'msg="{\\"password\\":\\"§\\"}" backup=b',
    "api_key: §",
    "Authorization: Bearer §",
    "Authorization: Basic § and more",
    '"authorization": "AWS4-HMAC-SHA256 Credential=x/y, Signature=§"',
    "curl -H 'Authorization: token §'",
    "Bearer §",
    "https://s3.example.com/bucket/key?X-Amz-Algorithm=a&X-Amz-Signature=§",
    "url=\"https://h/b?X-Amz-Credential=x\\u0026X-Amz-Signature=§\" next=1",
    "GET /bucket/key?X-Amz-Signature=§&x=y",
    "https://user:§@example.com/path",
    "postgres://admin:§@db:5432/x",
    "mysqldump --password=§ --all",
    "mysqldump --db-password § --all",
    'hookCommand="[/bin/sh -c mysqldump -p§]"',
    "-----BEGIN RSA PRIVATE KEY-----\n§\n§\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n§ cut off here",
    "X-Auth-Token: §",
    "refresh_token='§'",
    "Set-Cookie: §",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@given(secret=SECRETS)
def test_secrets_in_texts_are_redacted(text: str, secret: str) -> None:
    if "://" in text and ":§@" in text:
        secret = secret.replace("/", "_")  # there it would be the end of the host's name
    shown = redact_text(text.replace("§", secret))
    assert secret not in shown
    assert REDACTED in shown


@pytest.mark.parametrize("text", [text for text in TEXTS if "\n" not in text])
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact_text(text.replace("§", "hunter2hunter2"))
    assert "hunter2" not in redact_text(once)


@pytest.mark.parametrize(
    "text",
    [
        'time="2021-08-11T21:43:26Z" level=info msg="Backing up item" backup=velero/b name=web resource=pods',
        'Secret "cloud-credentials" not found',
        "open /credentials/cloud: no such file or directory",
        "secretName: cloud-credentials",
        "secret:\n  name: cloud-credentials",
        "AWS_SHARED_CREDENTIALS_FILE=/credentials/cloud",
        "--secret-file ./credentials --no-secret --wait",
        "give one: `restore create --identity-secret NAME` (pinnace.io/identity-secret: keys)",
        "GET https://10.96.0.1:443/api/v1/namespaces/velero/pods",
        "resources: secrets, configmaps",
        "key=value, keys: a b",
    ],
)
def test_harmless_texts_are_kept(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("id AKIAIOSFODNN7EXAMPLE used", f"id {REDACTED} used"),
        (
            "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_123 end",
            f"jwt {REDACTED} end",
        ),
        ("https://h/b/k?X-Amz-Signature=s was 403", f"https://h/b/k?{REDACTED} was 403"),
        ("password=a,user=b", f"password={REDACTED},user=b"),
    ],
)
def test_only_the_secret_is_redacted(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_a_long_line_is_redacted_quickly() -> None:
    line = "A" * 500_000 + " password=hunter2 " + "-" * 125_000 + "a.b" * 75_000 + "://" * 25_000
    assert "hunter2" not in redact_text(line)


OBJECT: dict[str, Any] = {
    "kind": "BackupStorageLocation",
    "metadata": {
        "name": "main",
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"x": "SECRET"}',
            "pre.hook.backup.velero.io/command": '["mysql", "-pSECRET"]',
            "note": "see https://user:SECRET@wiki/page",
        },
        "managedFields": [{"manager": "SECRET"}],
    },
    "spec": {
        "config": {"region": "r", "accountKey": "SECRET", "s3Url": "https://h:1", "credentialsFile": "/c"},
        "credential": {"name": "cloud-credentials", "key": "cloud"},
        "tokens": ["SECRET"],
        "hooks": {"resources": [{"pre": [{"exec": {"command": ["/bin/sh", "-c", "x -pSECRET"]}}]}]},
        "containers": [
            {
                "args": ["server", "--features=X", "--db-password", "SECRET", "--api-token=SECRET"],
                "command": ["/velero"],
                "env": [
                    {"name": "AWS_SECRET_ACCESS_KEY", "value": "SECRET"},
                    {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/credentials/cloud"},
                    {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
            }
        ],
        "volumes": [{"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}}],
        "count": 3,
    },
    "status": {"downloadURL": "https://h/b?X-Amz-Signature=SECRET", "phase": None},
}


def test_secrets_in_objects_are_redacted() -> None:
    shown = redact_object(OBJECT)

    assert "SECRET" not in json.dumps(shown).replace("AWS_SECRET_ACCESS_KEY", "")
    assert shown["spec"] == {
        "config": {"region": "r", "accountKey": REDACTED, "s3Url": "https://h:1", "credentialsFile": "/c"},
        "credential": {"name": "cloud-credentials", "key": "cloud"},
        "tokens": [REDACTED],
        "hooks": {"resources": [{"pre": [{"exec": {"command": ["/bin/sh", REDACTED]}}]}]},
        "containers": [
            {
                "args": ["server", "--features=X", "--db-password", REDACTED, f"--api-token={REDACTED}"],
                "command": ["/velero"],
                "env": [
                    {"name": "AWS_SECRET_ACCESS_KEY", "value": REDACTED},
                    {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/credentials/cloud"},
                    {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
            }
        ],
        "volumes": [{"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}}],
        "count": 3,
    }  # fmt: skip
    assert shown["status"] == {"downloadURL": f"https://h/b?{REDACTED}", "phase": None}


def test_the_data_of_a_secret_is_redacted() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "eA=="}, "stringData": {"b": "x"}}
    assert redact_object(secret) == {
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": REDACTED,
        "stringData": REDACTED,
    }


def test_the_original_object_is_not_changed() -> None:
    before = json.dumps(OBJECT)
    redact_object(OBJECT)
    assert json.dumps(OBJECT) == before


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("password", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("sasToken", True),
        ("secretName", False),
        ("secretKeyRef", False),
        ("credentialsFile", False),
        ("key", False),
        ("region", False),
    ],
)
def test_names_of_secrets_are_recognised(key: str, expected: bool) -> None:
    assert is_sensitive(key) is expected


CANARIES = [
    "hunter2",
    "x9",
    "hvs.CAESIJxQ2k7Yw1bN5pL8",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "s3cr3t-Pa55",
]


def planted(canary: str) -> list[Any]:
    """Objects with a canary wherever a person or a program may have written a secret."""
    container = {
        "name": "velero",
        "args": ["server", f"--token={canary}", "--db-password", canary],
        "command": ["/velero", canary],
        "env": [
            {"name": name, "value": canary}
            for name in ("AUTH", "PIN", "DB_PASS", "PW", "MYSQL_PWD", "SLACK", "ACCESS", "X", "DSN")
        ],
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "X-Knock", "value": canary}]}},
    }
    applied = json.dumps({"spec": {"containers": [container]}})
    metadata = {
        "name": "a",
        "annotations": {
            "example.com/note": canary,
            "vault.hashicorp.com/agent-inject-token": canary,
            "note": canary,
            "kubectl.kubernetes.io/last-applied-configuration": applied,
            "pre.hook.backup.velero.io/command": f'["/bin/sh", "-c", "mysqldump -p{canary}"]',
        },
        "managedFields": [{"manager": canary}],
    }
    pod = {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "initContainers": [container]},
    }
    return [
        pod,
        [pod],
        {"kind": "Deployment", "metadata": metadata, "spec": {"template": pod}},
        {"kind": "Secret", "metadata": metadata, "data": {"a": canary}, "stringData": {"b": canary}},
        {"kind": "ConfigMap", "metadata": metadata, "data": {"a": canary}, "binaryData": {"b": canary}},
        {
            "kind": "Backup",
            "metadata": metadata,
            "spec": {"hooks": {"pre": {"exec": {"command": ["sh", canary]}}}},
        },
    ]


@pytest.mark.parametrize("canary", CANARIES)
def test_no_canary_in_an_object_is_shown(canary: str) -> None:
    for value in planted(canary):
        assert canary not in json.dumps(redact_object(value))


@pytest.mark.parametrize("canary", [canary for canary in CANARIES if len(canary) > 15])
@pytest.mark.parametrize("line", ["connecting with §", "got {§} back", 'msg="said §" backup=b', "x=§ y"])
def test_no_token_in_a_log_line_is_shown(canary: str, line: str) -> None:
    assert canary not in redact_text(line.replace("§", canary))


@pytest.mark.parametrize(
    "text",
    [
        "image: example.com/velero/velero@sha256:4bf3c3e5b8a1f2d6e7c8b9a0f1e2d3c4b5a69788796a5b4c3d2e1f0a",
        "uid: 4bf3c3e5-b8a1-4f2d-86e7-c8b9a0f1e2d3",
        "CustomResourceDefinitionV1beta1 is not served",
        "pod/checkout-service-6d4cf56db6-x7k2p",
        "resourceVersion=123456789012345678901234",
        "backups/nightly-20210811214326/velero-backup.json",
        "VolumeSnapshotLocationsReconciler started",
        'logSource="src/pinnace/controllers/backup.py:211"',
    ],
)
def test_names_digests_and_timestamps_in_texts_are_kept(text: str) -> None:
    assert redact_text(text) == text


def test_harmless_fields_of_objects_are_kept() -> None:
    value = {
        "metadata": {
            "annotations": {"deployment.kubernetes.io/revision": "3", "velero.io/source-cluster": "v1"}
        },
        "env": [
            {"name": "VELERO_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/credentials/cloud"},
            {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
        ],
    }

    assert redact_object(value) == value


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["server", "--features=EnableCSI", "--client-qps", "100"], None),
        (["node-agent", "--restic-timeout=4h", "1h30m0.5s", "64Mi", "true"], None),
        (["1" * 5000], [REDACTED]),
        (["server", "--password=hunter2"], ["server", f"--password={REDACTED}"]),
        (["server", "-phunter2", "hunter2"], ["server", REDACTED, REDACTED]),
        (["Hunter2"], [REDACTED]),
        ([5, ["hunter2"]], [REDACTED, REDACTED]),
    ],
)
def test_only_arguments_that_are_known_to_be_harmless_are_shown(
    arguments: list[Any], shown: list[str] | None
) -> None:
    assert redact_object({"args": arguments}) == {"args": shown or arguments}


def test_a_command_line_in_place_of_the_program_keeps_the_program() -> None:
    assert redact_object({"command": ["mysql -phunter2"]}) == {"command": ["mysql", REDACTED]}
    assert redact_object({"command": ["/bin/sync"]}) == {"command": ["/bin/sync"]}
    assert redact_object({"command": []}) == {"command": []}


@pytest.mark.parametrize("word", ["hunter2", "Secret/word", "s3cr3t"])
def test_a_single_word_that_is_not_a_known_program_is_redacted(word: str) -> None:
    assert redact_object({"exec": {"command": [word]}}) == {"exec": {"command": [REDACTED]}}

"""Credentials that AWS's own chain finds, against a scripted server in place of AWS's services."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from pinnace.clouds.aws.chain import CredentialChain
from pinnace.clouds.aws.credentials import AccessKey
from pinnace.plugins.guest.logging import configure_logging as configure_guest_logging
from pinnace.server.monitoring.logging import configure_logging
from pinnace.store_access.errors import StorageError, StoreConfigError, StoreUnavailable
from tests.support.scripted_http import Service

JSON_ANSWER = (
    b'{"Code":"Success","AccessKeyId":"id","SecretAccessKey":"secret","Token":"token",'
    b'"Expiration":"2121-08-12T03:00:00Z"}'
)
STS_CREDENTIALS = (
    b"<Credentials><AccessKeyId>id</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
    b"<SessionToken>token</SessionToken><Expiration>2121-08-12T03:00:00Z</Expiration></Credentials>"
)
ROLES = "/latest/meta-data/iam/security-credentials/"


def assumed(action: str) -> bytes:
    """An answer of STS."""
    name = action.encode()
    return (
        b'<%sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%sResult>%s</%sResult></%sResponse>'
        % (name, name, STS_CREDENTIALS, name, name)
    )


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials, and a home of its own."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)  # between three attempts


def write(folder: Path, name: str, text: str) -> None:
    """A file of AWS's tools."""
    (folder / ".aws").mkdir(exist_ok=True)
    (folder / ".aws" / name).write_text(text)


def keys(found: AccessKey) -> tuple[str, str, str | None]:
    return found.access_key_id, found.secret_access_key, found.session_token


async def test_the_credentials_file_at_home_is_read(tmp_path: Path) -> None:
    write(tmp_path, "credentials", "[default]\naws_access_key_id=a\naws_secret_access_key=b\n")

    assert keys(await CredentialChain().get()) == ("a", "b", None)


async def test_a_profile_of_the_config_file_can_run_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        'import json\nprint(json.dumps({"Version": 1, "AccessKeyId": "p", "SecretAccessKey": "s"}))\n'
    )
    write(tmp_path, "config", f"[profile backup]\ncredential_process = {sys.executable} {program}\n")

    assert keys(await CredentialChain("backup").get()) == ("p", "s", None)


async def test_a_profile_can_assume_a_role_with_the_keys_of_another(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)
    write(tmp_path, "credentials", "[base]\naws_access_key_id=a\naws_secret_access_key=b\n")
    write(tmp_path, "config", "[profile r]\nrole_arn=arn:aws:iam::123456789012:role/r\nsource_profile=base\n")
    service.on("POST", "/", (200, assumed("AssumeRole")))

    assert keys(await CredentialChain("r", "eu-west-1").get()) == ("id", "secret", "token")
    assert parse_qs(service.asked[-1][3].decode())["RoleArn"] == ["arn:aws:iam::123456789012:role/r"]


@contextmanager
def restored_logging() -> Iterator[None]:
    """Sets back what setting up a process's log changes."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)


class TestWebIdentity:
    @pytest.fixture(autouse=True)
    def identity(self, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "token").write_text("jwt-of-pod")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)

    async def test_the_role_is_assumed_with_the_token(self, service: Service) -> None:
        service.on("POST", "/", (200, assumed("AssumeRoleWithWebIdentity")))
        found = await CredentialChain(region="eu-west-1").get()

        assert keys(found) == ("id", "secret", "token")
        assert parse_qs(service.asked[-1][3].decode())["WebIdentityToken"] == ["jwt-of-pod"]

    async def test_a_refusal_is_reported_without_the_token(self, service: Service) -> None:
        body = (
            b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>No.</Message></Error></ErrorResponse>"
        )
        service.on("POST", "/", (403, body))
        with pytest.raises(StorageError, match="AccessDenied") as caught:
            await CredentialChain(region="eu-west-1").get()
        assert "jwt-of-pod" not in str(caught.value)

    @pytest.mark.parametrize("process", ["server", "plugin"])
    async def test_no_log_level_writes_tokens_and_keys(self, service: Service, process: str) -> None:
        service.on("POST", "/", (200, assumed("AssumeRoleWithWebIdentity")))
        written = io.StringIO()
        with restored_logging():
            if process == "server":
                configure_logging("trace", "text", stream=written)
            else:
                configure_guest_logging("trace", written)
            await CredentialChain(region="eu-west-1").get()

        assert "Assume" not in written.getvalue()
        assert "jwt-of-pod" not in written.getvalue()
        assert "SecretAccessKey" not in written.getvalue()
        assert "Found endpoint for sts" in written.getvalue()

    async def test_a_missing_token_file_is_a_configuration_error(self, tmp_path: Path) -> None:
        (tmp_path / "token").unlink()
        with pytest.raises(StoreConfigError, match="token"):
            await CredentialChain(region="eu-west-1").get()


async def test_the_endpoint_of_a_container_is_asked_with_its_token(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("bearer")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/creds")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    service.on("GET", "/creds", (200, JSON_ANSWER))

    assert keys(await CredentialChain().get()) == ("id", "secret", "token")
    assert service.asked[-1][2]["Authorization"] == "bearer"


@pytest.mark.parametrize("body", [b"", b"<html>log in</html>", b"{}"])
async def test_an_answer_without_credentials_is_an_error(
    service: Service, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/creds")
    service.on("GET", "/creds", (200, body))
    with pytest.raises(StorageError, match="cannot get AWS credentials"):
        await CredentialChain().get()


async def test_the_instance_metadata_service_comes_last(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)
    service.on("PUT", "/latest/api/token", (200, b"session"))
    service.on("GET", ROLES, (200, b"my-role"))
    service.on("GET", f"{ROLES}my-role", (200, JSON_ANSWER))

    assert keys(await CredentialChain().get()) == ("id", "secret", "token")


async def test_a_named_profile_never_leads_to_a_metadata_service(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/creds")
    write(tmp_path, "config", "[profile empty]\nregion=x\n")
    with pytest.raises(StoreConfigError, match="no AWS credentials found"):
        await CredentialChain("empty").get()

    assert service.asked == []


async def test_no_credentials_at_all_is_said() -> None:
    with pytest.raises(StoreConfigError, match="no AWS credentials found: no environment variables"):
        await CredentialChain().get()


async def test_a_profile_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreConfigError, match="there is no profile 'absent'"):
        await CredentialChain("absent").get()
    monkeypatch.setenv("AWS_PROFILE", "missing")
    with pytest.raises(StoreConfigError, match="there is no profile 'missing'"):
        await CredentialChain().get()


async def test_a_damaged_file_is_not_quoted(tmp_path: Path) -> None:
    write(tmp_path, "credentials", "s3cret without section\n")
    with pytest.raises(StoreConfigError) as caught:
        await CredentialChain().get()

    assert "not in INI format" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_service_that_does_not_answer_may_answer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/creds")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.RETRY_ATTEMPTS", 1)
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    with pytest.raises((StoreUnavailable, StoreConfigError), match="cannot get AWS credentials"):
        await CredentialChain().get()


async def test_lasting_credentials_are_looked_for_once(tmp_path: Path) -> None:
    write(tmp_path, "credentials", "[default]\naws_access_key_id=a\naws_secret_access_key=b\n")
    chain = CredentialChain()
    first = await chain.get()
    (tmp_path / ".aws" / "credentials").unlink()

    assert await chain.get() is first


async def test_credentials_that_are_about_to_end_are_renewed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/creds")
    soon = (datetime.now(UTC) + timedelta(minutes=4)).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    first = JSON_ANSWER.replace(b"2121-08-12T03:00:00Z", soon)
    service.on("GET", "/creds", (200, first), (200, JSON_ANSWER.replace(b'"id"', b'"new"')))
    chain = CredentialChain()
    await chain.get()

    assert (await chain.get()).access_key_id == "new"
    assert (await chain.get()).access_key_id == "new"
    assert len(service.asked) == 2

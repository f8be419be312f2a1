"""Where credentials are found, in which order, and that nobody is asked who need not be."""

from datetime import timedelta
from pathlib import Path

import pytest

from pinnace.clouds.aws.credentials import (
    CachedCredentials,
    ContainerEndpoint,
    Credentials,
    InstanceMetadata,
    Origin,
    WebIdentity,
    find_origin,
)
from pinnace.storage.errors import StoreConfigError
from tests.support.clock import FrozenClock

FILE = """
[default]
aws_access_key_id = file-id
aws_secret_access_key = file=secret%with;odd#characters
region = ignored

[other]
aws_access_key_id=other-id
aws_secret_access_key=other-secret
aws_session_token=other-token

[incomplete]
aws_access_key_id=x
"""
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "env-id", "AWS_SECRET_ACCESS_KEY": "env-secret"}
WEB_IDENTITY = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn"}
CONTAINER = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}
NO_METADATA = {"AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "credentials"
    path.write_text(FILE)
    return path


def origin(environ: dict[str, str], *, profile: str = "", credentials_file: Path | None = None) -> Origin:
    return find_origin(environ, profile=profile, credentials_file=credentials_file)


def key_id(found: Origin) -> str:
    assert isinstance(found, Credentials)
    return found.access_key_id


def test_the_locations_file_goes_before_everything(path: Path) -> None:
    everything = ENVIRONMENT | WEB_IDENTITY | CONTAINER | {"AWS_SHARED_CREDENTIALS_FILE": "/other"}

    assert origin(everything, credentials_file=path) == Credentials(
        access_key_id="file-id", secret_access_key="file=secret%with;odd#characters"
    )


def test_profiles(path: Path) -> None:
    found = origin({}, profile="other", credentials_file=path)

    assert found == Credentials(
        access_key_id="other-id", secret_access_key="other-secret", session_token="other-token"
    )
    assert key_id(origin({"AWS_PROFILE": "other"}, credentials_file=path)) == "other-id"
    assert key_id(origin({"AWS_PROFILE": "other"}, profile="default", credentials_file=path)) == "file-id"


def test_the_environment_goes_before_the_shared_file(path: Path) -> None:
    shared = {"AWS_SHARED_CREDENTIALS_FILE": str(path)}

    assert key_id(origin(ENVIRONMENT | shared)) == "env-id"
    assert key_id(origin(ENVIRONMENT | shared, profile="other")) == "other-id"
    assert key_id(origin(shared | WEB_IDENTITY)) == "file-id"
    token = origin(ENVIRONMENT | {"AWS_SESSION_TOKEN": "t"})
    assert isinstance(token, Credentials)
    assert token.session_token == "t"


def test_the_file_at_home(path: Path, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    path.rename(tmp_path / ".aws" / "credentials")

    assert key_id(origin({"HOME": str(tmp_path)})) == "file-id"


@pytest.mark.parametrize(
    "environ", [{}, {"AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}, {"HOME": "/nowhere"}], ids=str
)
def test_then_roles(environ: dict[str, str]) -> None:
    assert origin(environ | WEB_IDENTITY | CONTAINER) == WebIdentity(
        token_file=Path("/token"), role_arn="arn", session_name="pinnace"
    )
    assert origin(environ | CONTAINER) == ContainerEndpoint(url="http://169.254.170.2/v2/x")
    full = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://h/x",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/t",
    }
    assert origin(environ | full) == ContainerEndpoint(url="http://h/x", token_file=Path("/t"))
    assert origin(environ) == InstanceMetadata("http://169.254.169.254")
    assert origin(environ | {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://h"}) == InstanceMetadata("http://h")


def test_nothing_at_all() -> None:
    with pytest.raises(StoreConfigError, match="no AWS credentials found"):
        origin(NO_METADATA)


def test_a_profile_that_was_chosen_must_exist(path: Path) -> None:
    for environ in ({"AWS_SHARED_CREDENTIALS_FILE": str(path)}, {}):
        with pytest.raises(StoreConfigError, match="profile 'absent'"):
            origin(environ, profile="absent")
        with pytest.raises(StoreConfigError, match="profile 'absent'"):
            origin(environ | {"AWS_PROFILE": "absent"})
    with pytest.raises(StoreConfigError, match="'incomplete' lacks aws_access_key_id or aws_secret"):
        origin({}, profile="incomplete", credentials_file=path)


@pytest.mark.parametrize("content", [b"secret-key-without-section = x", b"\xff\xfe"])
def test_a_damaged_file_is_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "credentials"
    path.write_bytes(content)
    with pytest.raises(StoreConfigError) as caught:
        origin({}, credentials_file=path)

    assert str(caught.value) == "the AWS credentials file is not in INI format"


def test_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(StoreConfigError, match="cannot read the AWS credentials file"):
        origin({}, credentials_file=tmp_path)


async def test_temporary_credentials_are_renewed_before_they_end(clock: FrozenClock) -> None:
    asked = 0

    async def source() -> Credentials:
        nonlocal asked
        asked += 1
        expires_at = clock() + timedelta(hours=1)
        return Credentials(access_key_id=f"id{asked}", secret_access_key="s", expires_at=expires_at)

    cached = CachedCredentials(source, clock=clock)
    assert (await cached.get()).access_key_id == "id1"
    clock.advance(timedelta(minutes=54))
    assert (await cached.get()).access_key_id == "id1"
    clock.advance(timedelta(minutes=2))
    assert (await cached.get()).access_key_id == "id2"


async def test_lasting_credentials_are_asked_for_once(clock: FrozenClock) -> None:
    asked = 0

    async def source() -> Credentials:
        nonlocal asked
        asked += 1
        return Credentials(access_key_id="id", secret_access_key="s")

    cached = CachedCredentials(source, clock=clock)
    await cached.get()
    clock.advance(timedelta(days=1000))
    await cached.get()
    assert asked == 1

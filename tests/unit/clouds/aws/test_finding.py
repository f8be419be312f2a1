"""The sources of credentials and their order; a source that is not needed is not asked."""

from pathlib import Path

import pytest

from pinnace.clouds.aws.chain import CredentialChain
from pinnace.clouds.aws.credentials import AccessKey, FixedCredentials
from pinnace.clouds.aws.finding import find_credentials
from pinnace.store_access.errors import StoreConfigError

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "credentials"
    path.write_text(FILE)
    return path


def fixed(environ: dict[str, str], *, profile: str = "", credentials_file: Path | None = None) -> AccessKey:
    """Credentials that are known without asking anything."""
    found = find_credentials(environ, profile=profile, credentials_file=credentials_file)
    assert isinstance(found, FixedCredentials)
    return found.credentials


def test_the_locations_file_goes_before_everything(path: Path) -> None:
    everything = ENVIRONMENT | {"AWS_SHARED_CREDENTIALS_FILE": "/other", "AWS_ROLE_ARN": "arn"}

    assert fixed(everything, credentials_file=path) == AccessKey(
        access_key_id="file-id", secret_access_key="file=secret%with;odd#characters"
    )


def test_profiles_of_the_locations_file(path: Path) -> None:
    found = fixed({}, profile="other", credentials_file=path)

    assert found == AccessKey(
        access_key_id="other-id", secret_access_key="other-secret", session_token="other-token"
    )
    assert fixed({"AWS_PROFILE": "other"}, credentials_file=path).access_key_id == "other-id"
    with_both = fixed({"AWS_PROFILE": "other"}, profile="default", credentials_file=path)
    assert with_both.access_key_id == "file-id"


async def test_the_environment_needs_no_library() -> None:
    found = find_credentials(ENVIRONMENT | {"AWS_SESSION_TOKEN": "t"})

    assert await found.get() == AccessKey(
        access_key_id="env-id", secret_access_key="env-secret", session_token="t"
    )


def test_all_else_is_left_to_the_chain_of_aws() -> None:
    assert isinstance(find_credentials({}), CredentialChain)
    assert isinstance(find_credentials(ENVIRONMENT, profile="other"), CredentialChain)


def test_a_profile_of_the_locations_file_must_exist(path: Path) -> None:
    with pytest.raises(StoreConfigError, match="profile 'absent'"):
        find_credentials({}, profile="absent", credentials_file=path)
    with pytest.raises(StoreConfigError, match="'incomplete' lacks aws_access_key_id or aws_secret"):
        find_credentials({}, profile="incomplete", credentials_file=path)


@pytest.mark.parametrize(
    "key", ["credential_process = /bin/false", "role_arn = arn\nsource_profile = default", "sso_session = x"]
)
def test_the_locations_file_runs_nothing_and_assumes_no_role(tmp_path: Path, key: str) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"[default]\n{key}\n")
    with pytest.raises(StoreConfigError, match="lacks aws_access_key_id"):
        find_credentials({}, credentials_file=path)


@pytest.mark.parametrize("content", [b"secret-key-without-section = x", b"\xff\xfe"])
def test_a_damaged_file_is_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "credentials"
    path.write_bytes(content)
    with pytest.raises(StoreConfigError) as caught:
        find_credentials({}, credentials_file=path)

    assert str(caught.value) == "the AWS credentials file is not in INI format"


def test_an_unreadable_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreConfigError, match="cannot read the AWS credentials file"):
        find_credentials({}, credentials_file=tmp_path)


SHARED = """
[default]
aws_access_key_id = keys-of-a-role
aws_secret_access_key = secret
role_arn = arn:aws:iam::1:role/backup

[profile programs]
credential_process = cat PATH.json

[plain]
aws_access_key_id = plain
aws_secret_access_key = secret
"""


@pytest.fixture
def shared(path: Path) -> Path:
    """A file that also has a role, and a program that makes keys."""
    path.write_text(SHARED.replace("PATH", str(path)))
    path.with_suffix(".json").write_text('{"Version": 1, "AccessKeyId": "made", "SecretAccessKey": "s"}')
    return path


@pytest.mark.found("O28a")
async def test_roles_of_the_locations_file_are_taken_only_where_its_configuration_says_so(
    shared: Path,
) -> None:
    path = shared
    assert isinstance(find_credentials({}, credentials_file=path, shared_config=True), CredentialChain)
    assert fixed({}, credentials_file=path).access_key_id == "keys-of-a-role"

    found = find_credentials({}, profile="plain", credentials_file=path, shared_config=True)
    assert isinstance(found, FixedCredentials)
    with pytest.raises(StoreConfigError, match="the credentials file has no profile 'programs'"):
        fixed({}, profile="programs", credentials_file=path)
    found = find_credentials({}, profile="programs", credentials_file=path, shared_config=True)
    assert (await found.get()).access_key_id == "made"


@pytest.mark.found("O28a")
def test_a_role_without_keys_says_which_setting_it_needs(path: Path) -> None:
    path.write_text("[default]\nrole_arn = arn:aws:iam::1:role/backup\nweb_identity_token_file = /token\n")
    with pytest.raises(StoreConfigError, match='its role is taken with enableSharedConfig: "true"'):
        fixed({}, credentials_file=path)

"""The configuration of an S3 location: keys, values, messages, addresses."""

from pathlib import Path

import pytest

from pinnace.storage.errors import StoreConfigError
from pinnace.storage.s3.config import VALID_KEYS, S3Config, parse_s3_config


def parsed(**config: str) -> S3Config:
    return parse_s3_config({"bucket": "bucket", **config})


def test_defaults() -> None:
    config = parsed(prefix="p", region="")

    assert config == S3Config(bucket="bucket")
    assert config.signature_version == 4
    assert not config.path_style


@pytest.mark.found("CF20")
def test_credentials_in_a_url_are_refused_for_what_they_are_and_not_repeated() -> None:
    with pytest.raises(StoreConfigError) as caught:
        parsed(s3Url="http://user:password@host:1")

    assert str(caught.value) == "Invalid s3 url of host:1: it must not hold a user name or password"


@pytest.mark.spec("STO-034")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"s3Url": "ftp://x"}, "Invalid s3 url ftp://x, URL must start with http:// or https://"),
        ({"s3Url": "minio:9000"}, "Invalid s3 url minio:9000"),
        ({"s3Url": "http://"}, "Invalid s3 url http://"),
        ({"s3Url": "http://host:port"}, "Invalid s3 url http://host:port"),
        ({"publicUrl": "x"}, "Invalid public url x"),
        ({"s3ForcePathStyle": "maybe"}, "could not parse s3ForcePathStyle (expected bool): "),
        ({"insecureSkipTLSVerify": "yes"}, "could not parse insecureSkipTLSVerify (expected bool): "),
        ({"signatureVersion": "2"}, "invalid signature version: 2"),
        ({"foo": "1", "bar": ""}, "config has invalid keys [bar foo]; valid keys are [region s3Url "),
        ({"resticRepoPrefix": "x"}, "config has invalid keys [resticRepoPrefix]"),
        ({"credentialsFile": "/nowhere"}, "provided credentialsFile does not exist"),
        ({"bucket": "arn:aws:s3::1:accesspoint/a.mrap"}, "the bucket is the ARN of an access point"),
        ({"bucket": ""}, "the bucket of an S3 location must not be empty"),
    ],
)
def test_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(StoreConfigError) as caught:
        parsed(**config)

    assert str(caught.value).startswith(message)


def test_every_key_is_taken(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("")
    values = dict.fromkeys(VALID_KEYS, "") | {"bucket": "b", "credentialsFile": str(credentials)}

    assert parse_s3_config(values).credentials_file == credentials


@pytest.mark.found("O28a")
@pytest.mark.parametrize("algorithm", ["", "CRC32", "CRC32C", "SHA1", "SHA256", "crc64nvme"])
def test_what_others_write_about_checksums_is_taken(algorithm: str) -> None:
    assert parsed(checksumAlgorithm=algorithm) == S3Config(bucket="bucket")


@pytest.mark.found("O28a")
def test_tags_are_checked_and_escaped() -> None:
    assert parsed(tagging="team=a b&stage=").tagging == "team=a%20b&stage="
    assert parsed(tagging="").tagging == ""


@pytest.mark.found("O28a")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"checksumAlgorithm": "MD4"},
            "checksumAlgorithm 'MD4' is not known: it is empty, or one of CRC32, ",
        ),
        ({"tagging": "team"}, "tagging 'team' is not a list of at most 10 different tags"),
        ({"tagging": "a=1&a=2"}, "tagging 'a=1&a=2' is not a list"),
        ({"tagging": "=1"}, "tagging '=1' is not a list"),
        ({"tagging": "&".join(f"t{n}=" for n in range(11))}, "tagging 't0="),
        ({"enableSharedConfig": "yes"}, "could not parse enableSharedConfig (expected bool): "),
        (
            {"customerKeyEncryptionFile": "/k"},
            "config.customerKeyEncryptionFile is not supported: data is not",
        ),
        ({"customerKeyEncryptionSecret": "s/k"}, "config.customerKeyEncryptionSecret is not supported: data"),
    ],
)
def test_later_settings_of_the_plugin_that_cannot_be_obeyed_are_refused_by_name(
    config: dict[str, str], message: str
) -> None:
    with pytest.raises(StoreConfigError) as caught:
        parsed(**config)
    assert str(caught.value).startswith(message)
    assert "invalid keys" not in str(caught.value)


@pytest.mark.found("O28a")
def test_a_setting_that_is_refused_may_ask_for_nothing() -> None:
    assert parsed(customerKeyEncryptionFile="", customerKeyEncryptionSecret="") == S3Config(bucket="bucket")


def test_credentials_in_a_url_are_not_repeated() -> None:
    with pytest.raises(StoreConfigError) as caught:
        parsed(s3Url="http://user:hunter2@host")

    assert "hunter2" not in str(caught.value)


@pytest.mark.spec("STO-040")
def test_an_empty_bool_is_unset() -> None:
    """The part of the case that is about S3."""
    assert not parsed(insecureSkipTLSVerify="").insecure_skip_tls_verify


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_true(text: str) -> None:
    assert parsed(s3ForcePathStyle=text).force_path_style


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_false(text: str) -> None:
    assert not parsed(s3ForcePathStyle=text).force_path_style


@pytest.mark.spec("STO-034")
def test_encryption() -> None:
    assert parsed(kmsKeyId="k", serverSideEncryption="AES256").encryption == "aws:kms"
    assert parsed(serverSideEncryption="AES256").encryption == "AES256"


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ({"region": "eu-west-1"}, "https://bucket.s3.eu-west-1.amazonaws.com"),
        ({"region": "cn-north-1"}, "https://bucket.s3.cn-north-1.amazonaws.com.cn"),
        ({"region": "eu-west-1", "s3ForcePathStyle": "1"}, "https://s3.eu-west-1.amazonaws.com/bucket"),
        ({"region": "eu-west-1", "bucket": "a.b"}, "https://s3.eu-west-1.amazonaws.com/a.b"),
        ({"s3Url": "https://minio.example.com:9000/"}, "https://bucket.minio.example.com:9000"),
        ({"s3Url": "http://minio", "s3ForcePathStyle": "true"}, "http://minio/bucket"),
        ({"s3Url": "http://10.0.0.1:9000"}, "http://10.0.0.1:9000/bucket"),
        ({"s3Url": "http://[::1]:9000"}, "http://[::1]:9000/bucket"),
    ],
)
def test_addresses(config: dict[str, str], url: str) -> None:
    found = parsed(**config)

    assert found.bucket_url(found.service_url(found.region)) == url

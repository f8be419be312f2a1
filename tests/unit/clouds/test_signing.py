"""Both signatures, against known results."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from pinnace.clouds.aws.credentials import AccessKey
from pinnace.clouds.aws.signing import Signer, quote_key, quote_query, signed_headers
from pinnace.storage.s3.signing_v1 import signed_url_v1

# The example keys of AWS's documentation.
EXAMPLE = AccessKey(
    access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)


def test_version_4_is_as_documented_by_aws() -> None:
    """The `List objects` example of 'Signature Calculations for the Authorization Header'."""
    query = quote_query({"prefix": "J", "max-keys": "2"})
    headers = signed_headers(
        "GET",
        f"https://examplebucket.s3.amazonaws.com/?{query}",
        Signer(region="us-east-1", credentials=EXAMPLE),
        now=datetime(2013, 5, 24, tzinfo=UTC),
    )

    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
        "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    )


def test_version_4_signs_the_session_token() -> None:
    credentials = AccessKey(access_key_id="a", secret_access_key="s", session_token="t")
    headers = signed_headers(
        "GET",
        "https://h/b",
        Signer(region="r", credentials=credentials),
        now=datetime(2021, 1, 1, tzinfo=UTC),
    )

    assert headers["x-amz-security-token"] == "t"
    assert "x-amz-date;x-amz-security-token," in headers["authorization"]


def test_quoting() -> None:
    assert quote_key("a b/ü+~") == "a%20b/%C3%BC%2B~"
    assert quote_query({"b": "x/y z", "a": ""}) == "a=&b=x%2Fy%20z"


@pytest.mark.spec("STO-039")
def test_version_1() -> None:
    credentials = AccessKey(access_key_id="key", secret_access_key="secret")
    url = signed_url_v1("https://h/b/k", credentials=credentials, ttl=timedelta(minutes=10))
    query = parse_qs(urlsplit(url).query)

    assert url.startswith("https://h/b/k?")
    assert query == {
        "AWSAccessKeyId": ["key"],
        "Expires": ["600"],
        # printf 'GET\n\n\n600\n/b/k' | openssl dgst -sha1 -hmac secret -binary | base64
        "Signature": ["ASZvDBWI5ZS+goJ8Gl24jWxTR+U="],
    }


def test_version_1_with_a_session_token() -> None:
    credentials = AccessKey(access_key_id="key", secret_access_key="secret", session_token="a+b")
    url = signed_url_v1("https://h/b/k", credentials=credentials, ttl=timedelta(seconds=1))

    assert parse_qs(urlsplit(url).query)["SecurityToken"] == ["a+b"]


def test_credentials_do_not_show_their_secrets() -> None:
    shown = repr(AccessKey(access_key_id="key", secret_access_key="hidden", session_token="also"))

    assert "key" in shown
    assert "hidden" not in shown
    assert "also" not in shown

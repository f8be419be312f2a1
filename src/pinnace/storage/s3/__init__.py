"""Objects in S3 and compatible stores. (docs/spec: STO 14.1)

Not here: finding credentials (clouds.aws).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pinnace.storage.provider import CredentialProblem, Opening, Provider, StoreURL, TenantRules

if TYPE_CHECKING:
    from pinnace.storage.interface import ObjectStore
    from pinnace.storage.uploader_store import UploaderStore

AWS_PROVIDER: Final = "velero.io/aws"
_OF_COMPATIBLE: Final = "s3://bucket/prefix?region=minio&s3ForcePathStyle=true&s3Url=http://HOST:PORT"
_RENEW_AWS = (
    "get new ones: `aws sso login` or new temporary keys; a server needs keys that do not expire, or a role"
    " of its service account"
)


def _open(config: Mapping[str, str], opening: Opening) -> "ObjectStore":
    # Imported here: only the library of the provider that is used is loaded.
    from pinnace.storage.s3.config import parse_s3_config
    from pinnace.storage.s3.store import S3Store

    return S3Store(parse_s3_config(config), environ=opening.environ, addresses=opening.addresses)


def _credentials_problem(content: str) -> str:
    from pinnace.storage.s3.tenants import credentials_problem

    return credentials_problem(content)


def _uploaders() -> "UploaderStore":
    from pinnace.storage.s3.uploaders import S3UploaderStore

    return S3UploaderStore()


PROVIDER: Final = Provider(
    name=AWS_PROVIDER,
    open=_open,
    uploaders=_uploaders,
    url=StoreURL(
        scheme="s3",
        shown=("region", "s3Url", "s3ForcePathStyle"),
        article="an",
        title="S3 URL",
        instead="credentialsFile or profile",
        others={
            **dict.fromkeys(("minio", "http", "rest", "ceph", "b2", "r2", "swift"), _OF_COMPATIBLE),
            "https": f"s3://bucket/prefix?region=REGION (AWS) or {_OF_COMPATIBLE} (others)",
            **dict.fromkeys(("s3a", "s3n", "aws"), "s3://bucket/prefix"),
        },
        parameters=(
            "region",
            "s3Url",
            "publicUrl",
            "s3ForcePathStyle",
            "signatureVersion",
            "kmsKeyId",
            "serverSideEncryption",
            "profile",
            "credentialsFile",
            "insecureSkipTLSVerify",
            "checksumAlgorithm",
            "tagging",
            "enableSharedConfig",
            "customerKeyEncryptionFile",
            "customerKeyEncryptionSecret",
            "resticRepoPrefix",
        ),
    ),
    tenants=TenantRules(
        settings=frozenset(
            {
                "region",
                "s3Url",
                "publicUrl",
                "kmsKeyId",
                "serverSideEncryption",
                "s3ForcePathStyle",
                "signatureVersion",
                "checksumAlgorithm",
                "tagging",
            }
        ),
        credentials_problem=_credentials_problem,
    ),
    credentials_variable="AWS_SHARED_CREDENTIALS_FILE",
    credential_problems=(
        CredentialProblem(
            r"ExpiredToken|TokenRefreshRequired|security token included in the request is expired|"
            r"provided token has expired",
            "its AWS credentials have expired",
            _RENEW_AWS,
        ),
        CredentialProblem(
            r"from sso|SSO (?:session|token)|UnauthorizedSSOToken",
            "its AWS sign-on has expired",
            "run `aws sso login`; a server needs keys, or a role of its service account",
        ),
        CredentialProblem(
            r"InvalidAccessKeyId|InvalidClientTokenId|UnrecognizedClientException",
            "its AWS access key no longer exists, or is inactive",
            "make a new key, and write it into the Secret or the credentials file",
        ),
        CredentialProblem(
            r"SignatureDoesNotMatch",
            "its secret access key is wrong",
            "write key and secret again; a line break or a space at the end counts too",
        ),
    ),
)

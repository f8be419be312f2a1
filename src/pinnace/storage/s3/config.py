"""The configuration of an S3 location, checked once: pure, except that it looks for the credentials file.

The keys, defaults and messages are those of Velero's AWS plugin. (docs/spec: STO 14, 14.1)
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pinnace.storage.errors import StoreConfigError
from pinnace.storage.settings import check_keys, existing_file, parse_bool

VALID_KEYS = (
    "region",
    "s3Url",
    "publicUrl",
    "kmsKeyId",
    "serverSideEncryption",
    "s3ForcePathStyle",
    "signatureVersion",
    "credentialsFile",
    "profile",
    "insecureSkipTLSVerify",
    "checksumAlgorithm",
    "tagging",
    "enableSharedConfig",
    "bucket",
    "prefix",
    "caCert",
)
_CUSTOMER_KEY = (
    "data is not encrypted with a key of the customer's own (SSE-C); leave it out, and use kmsKeyId or"
    " serverSideEncryption; the store has the key then"
)
REFUSED_KEYS = {
    "customerKeyEncryptionFile": _CUSTOMER_KEY,
    "customerKeyEncryptionSecret": _CUSTOMER_KEY,
}
"""The keys of Velero's plugin that are not obeyed, and why. They are refused by name."""

CHECKSUM_ALGORITHMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
"""The values of checksumAlgorithm besides none. They change nothing: every request names the SHA-256 of its
body, which the store compares, and the ETag of the answer is compared here. (docs/adr/012)"""

_MOST_TAGS = 10

_REGION = re.compile(r"[-._A-Za-z0-9]*")
_HOST_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Config:
    """The settings of a location; empty texts mean 'not given'.

    Attributes:
        region: empty with an endpoint means `us-east-1` for signatures, without one: ask the service.
        endpoint: URL of a compatible store without path; empty is AWS itself.
        public_url: the endpoint that signed URLs name instead.
        signature_version: 1 or 4, for signed URLs only.
        encryption: the server-side encryption to ask for, `aws:kms` if kms_key_id is given.
        profile: profile in the credentials file; empty is the environment's, else `default`.
        tagging: the tags of each object, as the header `x-amz-tagging` has them: `team=a&stage=b`.
        shared_config: whether the location's credentials file may have roles, as AWS's config file may.
        ca_cert: PEM text of the certificates to trust.
    """

    bucket: str
    region: str = ""
    endpoint: str = ""
    public_url: str = ""
    force_path_style: bool = False
    signature_version: int = 4
    kms_key_id: str = ""
    encryption: str = ""
    tagging: str = ""
    shared_config: bool = False
    profile: str = ""
    credentials_file: Path | None = None
    insecure_skip_tls_verify: bool = False
    ca_cert: str = field(default="", repr=False)

    @property
    def path_style(self) -> bool:
        """Whether the bucket is part of the path: wanted, or impossible as part of the host name."""
        if self.force_path_style or not _HOST_LABEL.fullmatch(self.bucket):
            return True
        host = urlsplit(self.endpoint).hostname or ""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def service_url(self, region: str) -> str:
        """The endpoint without the bucket: the configured one, or AWS's in `region`."""
        return (
            self.endpoint or f"https://s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
        )

    def bucket_url(self, service_url: str) -> str:
        """The URL of the bucket at a service's or the public endpoint, without a slash at its end."""
        if self.path_style:
            return f"{service_url}/{self.bucket}"
        scheme, _, rest = service_url.partition("://")
        return f"{scheme}://{self.bucket}.{rest}"


def parse_s3_config(config: Mapping[str, str]) -> S3Config:
    """Check a configuration of texts, and give its values types.

    Raises:
        StoreConfigError: an unknown key, a value that cannot be parsed, a missing credentials file.
    """
    check_keys(config, VALID_KEYS, refused=REFUSED_KEYS)
    if not config.get("bucket"):
        raise StoreConfigError("the bucket of an S3 location must not be empty")
    if config["bucket"].startswith("arn:"):
        raise StoreConfigError(
            "the bucket is the ARN of an access point, whose requests are signed in another way: that is not"
            " supported; name the bucket behind it"
        )
    version = config.get("signatureVersion") or "4"
    if version not in ("1", "4"):
        raise StoreConfigError(f"invalid signature version: {version}")
    if not _REGION.fullmatch(config.get("region", "")):
        # It becomes a part of the host's name, and must not end it.
        raise StoreConfigError(f"region {config['region'][:63]!r} is not the name of a region")
    checksum = config.get("checksumAlgorithm", "")
    if checksum and checksum.upper() not in CHECKSUM_ALGORITHMS:
        raise StoreConfigError(
            f"checksumAlgorithm {checksum[:63]!r} is not known: it is empty, or one of"
            f" {', '.join(CHECKSUM_ALGORITHMS)}"
        )
    kms_key_id = config.get("kmsKeyId", "")
    return S3Config(
        bucket=config["bucket"],
        region=config.get("region", ""),
        endpoint=_parse_url("s3", config.get("s3Url", "")),
        public_url=_parse_url("public", config.get("publicUrl", "")),
        force_path_style=_parse_bool(config, "s3ForcePathStyle"),
        signature_version=int(version),
        kms_key_id=kms_key_id,
        encryption="aws:kms" if kms_key_id else config.get("serverSideEncryption", ""),
        tagging=_parse_tags(config.get("tagging", "")),
        shared_config=_parse_bool(config, "enableSharedConfig"),
        profile=config.get("profile", ""),
        credentials_file=existing_file(config.get("credentialsFile", "")),
        insecure_skip_tls_verify=_parse_bool(config, "insecureSkipTLSVerify"),
        ca_cert=config.get("caCert", ""),
    )


def _parse_bool(config: Mapping[str, str], key: str) -> bool:
    text = config.get(key, "")
    found = parse_bool(text)
    if found is None:
        raise StoreConfigError(
            f'could not parse {key} (expected bool): strconv.ParseBool: parsing "{text}": invalid syntax'
        )
    return found


def _parse_tags(text: str) -> str:
    """The tags in the form of a query, each part escaped."""
    if not text:
        return ""
    try:
        tags = parse_qsl(text, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        tags = []
    names = {name for name, _ in tags}
    if not tags or "" in names or len(names) != len(tags) or len(tags) > _MOST_TAGS:
        raise StoreConfigError(
            f"tagging {text[:127]!r} is not a list of at most {_MOST_TAGS} different tags, such as"
            " team=a&stage=b"
        )
    return urlencode(tags, quote_via=quote, safe="")


def _parse_url(which: str, url: str) -> str:
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    shown = url.rpartition("@")[2]  # credentials in the URL must not appear in texts
    if valid and parts.username is not None:
        raise StoreConfigError(f"Invalid {which} url of {shown}: it must not hold a user name or password")
    if not valid:
        raise StoreConfigError(
            f"Invalid {which} url {shown}, URL must start with http:// or https:// and name a host"
        )
    return url.rstrip("/")

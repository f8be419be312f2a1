"""The configuration of a GCS location, checked once. (docs/spec: STO 14, 14.2)"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pinnace.storage.errors import StoreConfigError
from pinnace.storage.settings import check_keys, existing_file, service_url

ENDPOINT = "https://storage.googleapis.com"
VALID_KEYS = (
    "kmsKeyName",
    "serviceAccount",
    "storeEndpoint",
    "credentialsFile",
    "bucket",
    "prefix",
    "caCert",
)
"""The keys of Velero's plugin, and storeEndpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSConfig:
    """The settings of a location; empty texts mean 'not given'.

    Attributes:
        kms_key_name: resource name of the Cloud KMS key that encrypts new objects.
        service_account: signs URLs through IAM where there is no key file.
        endpoint: of the service, such as one of Private Service Connect; without a path.
        ca_cert: PEM text of the certificates to trust.
    """

    bucket: str
    kms_key_name: str = ""
    service_account: str = ""
    endpoint: str = ENDPOINT
    credentials_file: Path | None = None
    ca_cert: str = field(default="", repr=False)


def parse_gcs_config(config: Mapping[str, str]) -> GCSConfig:
    """Check a configuration and give it types.

    Raises:
        StoreConfigError: an unknown key, a value that cannot be used, a missing credentials file.
    """
    check_keys(config, VALID_KEYS)
    if not config.get("bucket"):
        raise StoreConfigError("the bucket of a GCS location must not be empty")
    return GCSConfig(
        bucket=config["bucket"],
        kms_key_name=config.get("kmsKeyName", ""),
        service_account=config.get("serviceAccount", ""),
        endpoint=service_url("storeEndpoint", config.get("storeEndpoint", "")) or ENDPOINT,
        credentials_file=existing_file(config.get("credentialsFile", "")),
        ca_cert=config.get("caCert", ""),
    )

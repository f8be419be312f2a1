"""S3 and compatible stores, as restic and kopia reach them. (docs/spec: STO 15, 16, KOP 2)"""

import asyncio
import base64
import logging
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.storage.settings import parse_bool
from pinnace.storage.uploader_store import KopiaSecrets, KopiaStorage, UploaderCall, UploaderStore

log = logging.getLogger(__name__)

REGION_SECONDS: Final = 15.0

_AWS: Final = "s3:s3.amazonaws.com"
_AWS_HOST: Final = re.compile(r"s3:s3([.-][a-z0-9-]+)?\.amazonaws\.com(\.cn)?")
_KEYS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ACCESS_KEY",
    "AWS_SECRET_KEY",
    "MINIO_ACCESS_KEY",
    "MINIO_SECRET_KEY",
)
"""Variables that restic prefers to a credentials file; they belong to another location."""


class S3UploaderStore(UploaderStore):
    """See UploaderStore."""

    def needs_region(self, config: Mapping[str, str]) -> bool:
        """Whether it is a bucket of AWS itself."""
        return not config.get("s3Url")

    async def find_region(self, bucket: str) -> str:
        """The region, asked of AWS without credentials; empty if it is not known. (docs/spec: STO 15)"""
        # Loaded here: only a bucket of AWS itself needs it.
        from pinnace.storage.s3.requests import find_bucket_region
        from pinnace.store_access.requests import RequestPolicy, new_session, tls_context

        policy = RequestPolicy(attempts=2, request_seconds=REGION_SECONDS / 3)
        try:
            async with (
                asyncio.timeout(REGION_SECONDS),
                new_session(tls_context("", insecure=False)) as session,
            ):
                return await find_bucket_region(bucket, session, policy=policy)
        except (StorageError, TimeoutError) as error:
            fields = {"bucket": bucket, "error": error}
            log.debug("The region of a bucket is not known", extra={"fields": fields})
            return ""

    def without_region(self, address: str) -> str:
        """The address, by AWS's host for all regions."""
        host, slash, rest = address.partition("/")
        return f"{_AWS}{slash}{rest}" if _AWS_HOST.fullmatch(host) else address

    def restic_address(self, config: Mapping[str, str], bucket: str, directory: str, region: str) -> str:
        """`s3:host/bucket/directory`."""
        host = _AWS
        if endpoint := config.get("s3Url"):
            host = f"s3:{endpoint.removesuffix('/')}"
        elif region:
            host = f"s3:s3-{region}.amazonaws.com"
        return f"{host}/{bucket}/{directory}"

    async def restic_environment(self, call: UploaderCall) -> Mapping[str, str | None]:
        """The file of credentials and the profile, where the location has them."""
        made: dict[str, str | None] = {}
        if file := call.settings.get("credentialsFile", ""):
            made = {**dict.fromkeys(_KEYS), "AWS_SHARED_CREDENTIALS_FILE": file}
        if "profile" in call.settings:
            made["AWS_PROFILE"] = call.settings["profile"]
        return made

    def kopia_storage(self, spec: BackupStorageLocationSpec, bucket: str, prefix: str) -> KopiaStorage:
        """The bucket, and the endpoint without a path."""
        config, region = spec.config, spec.config.get("region", "")
        options: dict[str, Any] = {"bucket": bucket, "prefix": prefix, "region": region}
        options["endpoint"], is_plain = _endpoint(config.get("s3Url", ""), region)
        flags = [f"--bucket={bucket}", f"--endpoint={options['endpoint']}"]
        if region:
            flags.append(f"--region={region}")
        if is_plain:
            options["doNotUseTLS"] = True
            flags.append("--disable-tls")
        if parse_bool(config.get("insecureSkipTLSVerify", "")):
            options["doNotVerifyTLS"] = True
            flags.append("--disable-tls-verification")
        if spec.object_storage.ca_cert:
            options["rootCA"] = base64.b64encode(spec.object_storage.ca_cert).decode()
        flags.append(f"--prefix={prefix}")
        return KopiaStorage(kind="s3", options=options, flags=tuple(flags), ca_flag="--root-ca-pem-path")

    async def kopia_secrets(self, call: UploaderCall) -> KopiaSecrets:
        """The keys; in the configuration none that expire, which kopia renews itself."""
        from pinnace.clouds.aws.credentials import FixedCredentials
        from pinnace.clouds.aws.finding import find_credentials
        from pinnace.storage.s3.config import parse_s3_config

        settings = parse_s3_config(call.settings)
        source = find_credentials(
            call.environ,
            profile=settings.profile,
            credentials_file=settings.credentials_file,
            region=settings.region,
            shared_config=settings.shared_config,
        )
        now = await source.get()
        is_own = bool(settings.profile or settings.credentials_file)  # kopia would not find them itself
        is_fixed = isinstance(source, FixedCredentials) or is_own or now.session_token is None
        key, secret, token = now.access_key_id, now.secret_access_key, now.session_token or ""
        kept = (key, secret, token) if is_fixed else ("", "", "")
        return KopiaSecrets(
            options=dict(zip(("accessKeyID", "secretAccessKey", "sessionToken"), kept, strict=True)),
            creation={
                "AWS_ACCESS_KEY_ID": key,
                "AWS_SECRET_ACCESS_KEY": secret,
                "AWS_SESSION_TOKEN": token,
            },
        )


def _endpoint(url: str, region: str) -> tuple[str, bool]:
    """Host and port for kopia, and whether they are used without TLS. Raises StoreConfigError."""
    if not url:
        if not region:
            return "s3.amazonaws.com", False
        return f"s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}", False
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("http", "https"):
        raise StoreConfigError("s3Url of the location is not an http or https URL")
    if parts.path.strip("/"):
        raise StoreConfigError(
            "s3Url of the location has a path, which kopia cannot use: name host and port only"
        )
    return parts.netloc.rpartition("@")[2], parts.scheme == "http"

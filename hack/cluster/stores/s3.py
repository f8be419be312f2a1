"""A real S3 server on loopback: versitygw over a folder, with http or with https and a CA of its own."""

import base64
import hashlib
import secrets
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hack.cluster import binaries
from hack.cluster.pki import write_secret
from hack.cluster.processes import ManagedProcess
from hack.cluster.stores.server import StoreServer
from pinnace.clouds.aws.credentials import AccessKey
from pinnace.clouds.aws.signing import Signer, quote_key, signed_headers

REGION = "us-east-1"
HEALTH_PATH = "/healthz"
_DEFAULT_RETENTION = (
    "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>"
    "<Mode>GOVERNANCE</Mode><Days>{days}</Days></DefaultRetention></Rule></ObjectLockConfiguration>"
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket and its server."""

    name: str
    server: "S3Server"

    @property
    def location_config(self) -> dict[str, str]:
        """The `config` of a backup storage location for this server; the CA goes elsewhere."""
        return {"region": self.server.region, "s3ForcePathStyle": "true", "s3Url": self.server.url}


class S3Server(StoreServer):
    """An S3 server.

    Each server gets a new root access key through its environment (an argument list is public). Clients find
    it in `credentials_file`, in the form of an AWS shared credentials file.

    Args:
        directory: the server's own folder; made if missing. Buckets are folders in its `buckets`.
        locks: for buckets with object lock; the folder needs user extended attributes then.
        tls: as of StoreServer.
        address: of this machine, to listen on; pods reach the gateway of their cluster's network.
    """

    title = "S3"
    health_path = HEALTH_PATH
    grace_seconds = 2.0
    region = REGION

    def __init__(
        self, directory: Path, *, tls: bool = False, address: str = "127.0.0.1", locks: bool = False
    ) -> None:
        super().__init__(directory, tls=tls, address=address)
        self._locks = locks
        self.credentials = AccessKey(
            access_key_id=f"PN{secrets.token_hex(9).upper()}", secret_access_key=secrets.token_urlsafe(30)
        )
        self.credentials_file = self.directory / "credentials"
        write_secret(self.credentials_file, self._credentials_text().encode())

    def remove(self) -> None:
        """End the server and delete its folder."""
        self.stop(grace_seconds=0)
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_bucket(self, name: str, *, locks: bool = False, default_days: int = 0) -> Bucket:
        """Make a bucket by the S3 API.

        Args:
            locks: with object lock, and therefore with versions; the server must be made for it.
            default_days: how long an object is held that is put without a retention.

        Raises:
            ClusterError: the server refused; the text is its answer.
        """
        path = f"/{quote_key(name)}"
        signer = Signer(region=self.region, credentials=self.credentials)
        lock = {"x-amz-bucket-object-lock-enabled": "true"} if locks else None
        headers = signed_headers("PUT", f"{self.url}{path}", signer, now=datetime.now(UTC), headers=lock)
        self._make(f"bucket {name}", "PUT", path, headers, None, wanted=200)
        if default_days:
            body = _DEFAULT_RETENTION.format(days=default_days)
            query = f"{path}?object-lock="
            digest = hashlib.md5(body.encode(), usedforsecurity=False).digest()
            headers = signed_headers(
                "PUT",
                f"{self.url}{query}",
                signer,
                now=datetime.now(UTC),
                body_hash=hashlib.sha256(body.encode()).hexdigest(),
                headers={"content-md5": base64.b64encode(digest).decode("ascii")},
            )
            self._make(f"the default of {name}", "PUT", query, headers, body, wanted=200)
        return Bucket(name, self)

    def _launch(self) -> ManagedProcess:
        program = binaries.locate(binaries.S3_SERVER)["versitygw"]
        return ManagedProcess(
            "versitygw",
            [program, *self._flags()],
            log=self.directory / "logs" / "versitygw.log",
            env={
                "ROOT_ACCESS_KEY": self.credentials.access_key_id,
                "ROOT_SECRET_KEY": self.credentials.secret_access_key,
            },
        )

    def _flags(self) -> list[str]:
        buckets, sidecar = self.directory / "buckets", self.directory / "metadata"
        versions = self.directory / "versions"
        for folder in (buckets, versions if self._locks else sidecar):
            folder.mkdir(exist_ok=True)
        tls: list[str] = []
        if self.serving_pair:
            tls = [f"--cert={self.serving_pair.certificate}", f"--key={self.serving_pair.key}"]
        return [
            f"--port={self.address}:{self.port}",
            f"--region={self.region}",
            f"--health={HEALTH_PATH}",
            "--quiet",
            "--keep-alive",
            *tls,
            "posix",
            # Metadata in files of its own: not every file system has user extended attributes. With versions,
            # a key that was deleted once could not be read again.
            f"--versioning-dir={versions}" if self._locks else f"--sidecar={sidecar}",
            str(buckets),
        ]

    def _credentials_text(self) -> str:
        return (
            "[default]\n"
            f"aws_access_key_id = {self.credentials.access_key_id}\n"
            f"aws_secret_access_key = {self.credentials.secret_access_key}\n"
        )

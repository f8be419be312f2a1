"""A real S3 server on loopback: versitygw over a folder, with http or with https and a CA of its own."""

import http.client
import secrets
import shutil
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from hack.cluster import binaries
from hack.cluster.errors import ClusterError
from hack.cluster.pki import CertificateAuthority, KeyPair, write_secret
from hack.cluster.processes import ManagedProcess, free_port
from hack.cluster.sigv4 import Credentials, signed_headers

REGION = "us-east-1"
HEALTH_PATH = "/healthz"
REQUEST_TIMEOUT_SECONDS = 10.0
START_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket and the server that has it."""

    name: str
    server: "S3Server"

    @property
    def location_config(self) -> dict[str, str]:
        """The `config` of a backup storage location for this server; the CA goes elsewhere."""
        return {"region": self.server.region, "s3ForcePathStyle": "true", "s3Url": self.server.url}


class S3Server:
    """One server in one folder. A context manager: started on entry, stopped on exit.

    The root access key is made anew for each server, handed to it by its environment (an argument list is
    public), and written for clients to `credentials_file` in the form of an AWS shared credentials file.

    Args:
        directory: the server's own folder; made if missing. Buckets are folders in its `buckets`.
        tls: serve https with `serving_pair`, a certificate of `authority`; both are None with http.
        address: of this machine, to listen on; pods reach the gateway of their cluster's network.
    """

    region = REGION

    def __init__(self, directory: Path, *, tls: bool = False, address: str = "127.0.0.1") -> None:
        self.directory = directory.absolute()
        self.address = address
        self.port = free_port()
        self.credentials = Credentials(
            access_key=f"PN{secrets.token_hex(9).upper()}", secret_key=secrets.token_urlsafe(30)
        )
        self.credentials_file = self.directory / "credentials"
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(self.credentials_file, self._credentials_text().encode())
        self.serving_pair: KeyPair | None = None
        self.authority: CertificateAuthority | None = None
        if tls:
            self.authority = CertificateAuthority(self.directory / "pki", name="S3 CA")
            self.serving_pair = self.authority.issue_server(
                "server", addresses=("127.0.0.1", address), names=("localhost",)
            )
        self._process: ManagedProcess | None = None

    @property
    def url(self) -> str:
        """The endpoint, for path-style requests."""
        return f"{'https' if self.serving_pair else 'http'}://{self.address}:{self.port}"

    @property
    def ca_file(self) -> Path | None:
        """The certificate that https clients must trust; None with http."""
        return self.authority.certificate if self.authority else None

    @property
    def process(self) -> ManagedProcess | None:
        """The running process."""
        return self._process

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the server if it does not run and return when it answers.

        Raises:
            ProgramUnavailable, StartFailed: nothing is left running then.
        """
        if self._process is not None:
            return
        program = binaries.locate(binaries.S3_SERVER)["versitygw"]
        self._process = ManagedProcess(
            "versitygw",
            [program, *self._flags()],
            log=self.directory / "logs" / "versitygw.log",
            env={
                "ROOT_ACCESS_KEY": self.credentials.access_key,
                "ROOT_SECRET_KEY": self.credentials.secret_key,
            },
        )
        try:
            self._process.wait_ready(self._healthy, timeout_seconds=timeout_seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self, *, grace_seconds: float = 2.0) -> None:
        """End the server and keep its buckets; `start()` brings it back on the same address. Idempotent."""
        if self._process is not None:
            self._process.stop(grace_seconds=grace_seconds)
            self._process = None

    def remove(self) -> None:
        """End the server and delete its folder."""
        self.stop(grace_seconds=0)
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_bucket(self, name: str) -> Bucket:
        """Make a bucket by the S3 API.

        Raises:
            ClusterError: the server refused; the text is its answer.
        """
        headers = signed_headers(
            "PUT",
            f"{self.address}:{self.port}",
            f"/{name}",
            credentials=self.credentials,
            region=self.region,
            now=datetime.now(UTC),
        )
        status, body = self._request("PUT", f"/{quote(name)}", headers)
        if status != 200:
            raise ClusterError(f"creating bucket {name}: {status} {body.decode(errors='replace')[:500]}")
        return Bucket(name, self)

    def _flags(self) -> list[str]:
        buckets, sidecar = self.directory / "buckets", self.directory / "metadata"
        for folder in (buckets, sidecar):
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
            # Metadata in files of its own: not every file system has user extended attributes.
            f"--sidecar={sidecar}",
            str(buckets),
        ]

    def _healthy(self) -> bool:
        try:
            return self._request("GET", HEALTH_PATH, {})[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _request(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.authority is None:
            return http.client.HTTPConnection(self.address, self.port, timeout=REQUEST_TIMEOUT_SECONDS)
        context: ssl.SSLContext = self.authority.trust()
        return http.client.HTTPSConnection(
            self.address, self.port, timeout=REQUEST_TIMEOUT_SECONDS, context=context
        )

    def _credentials_text(self) -> str:
        return (
            "[default]\n"
            f"aws_access_key_id = {self.credentials.access_key}\n"
            f"aws_secret_access_key = {self.credentials.secret_key}\n"
        )

"""A GCS server on loopback: fake-gcs-server in memory, and a token service for an account of its own."""

import http.client
import http.server
import json
import secrets
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hack.cluster import binaries
from hack.cluster.errors import ClusterError
from hack.cluster.pki import CertificateAuthority, KeyPair, write_secret
from hack.cluster.processes import ManagedProcess, free_port

ACCOUNT = "tests@project.iam.gserviceaccount.com"
REQUEST_TIMEOUT_SECONDS = 10.0
START_TIMEOUT_SECONDS = 30.0


class GCSServer:
    """One server in one folder. A context manager: started on entry, stopped on exit.

    The server asks nobody for credentials. A service beside it gives tokens for the assertions of
    `credentials_file`, so that clients go the whole way; `tokens_given` counts them.

    Args:
        directory: the server's own folder; made if missing.
        tls: serve https with a certificate of `authority`, which is None with http.
    """

    def __init__(self, directory: Path, *, tls: bool = False) -> None:
        self.directory = directory.absolute()
        self.address = "127.0.0.1"
        self.port = free_port()
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.credentials_file = self.directory / "key.json"
        self.tokens_given = 0
        self.authority: CertificateAuthority | None = None
        self.serving_pair: KeyPair | None = None
        if tls:
            self.authority = CertificateAuthority(self.directory / "pki", name="GCS CA")
            self.serving_pair = self.authority.issue_server(
                "server", addresses=(self.address,), names=("localhost",)
            )
        self._process: ManagedProcess | None = None
        self._tokens: http.server.ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"{'https' if self.serving_pair else 'http'}://{self.address}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start both services and return when they answer.

        Raises:
            ProgramUnavailable, StartFailed: nothing is left running then.
        """
        program = binaries.locate(binaries.GCS_SERVER)["fake-gcs-server"]
        self._start_tokens()
        tls: list[str] = []
        if self.serving_pair:
            tls = [
                f"-cert-location={self.serving_pair.certificate}",
                f"-private-key-location={self.serving_pair.key}",
            ]
        self._process = ManagedProcess(
            "fake-gcs-server",
            [
                program,
                "-backend=memory",
                f"-scheme={'https' if tls else 'http'}",
                f"-host={self.address}",
                f"-port={self.port}",
                f"-public-host={self.address}:{self.port}",
                *tls,
            ],
            log=self.directory / "fake-gcs-server.log",
        )
        try:
            self._process.wait_ready(self._healthy, timeout_seconds=START_TIMEOUT_SECONDS)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End both services. Idempotent."""
        if self._process is not None:
            self._process.stop(grace_seconds=0)
            self._process = None
        if self._tokens is not None:
            self._tokens.shutdown()
            self._tokens.server_close()
            self._tokens = None

    def create_bucket(self, name: str) -> None:
        """Make a bucket. Raises ClusterError."""
        status, body = self._request("POST", "/storage/v1/b?project=tests", json.dumps({"name": name}))
        if status != 200:
            raise ClusterError(f"creating bucket {name}: {status} {body.decode(errors='replace')[:500]}")

    def _start_tokens(self) -> None:
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                owner.tokens_given += 1
                body = json.dumps({"access_token": secrets.token_hex(8), "expires_in": 3599}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self._tokens = http.server.ThreadingHTTPServer((self.address, 0), Handler)
        threading.Thread(target=self._tokens.serve_forever, daemon=True).start()
        key = generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        values = {
            "type": "service_account",
            "project_id": "project",
            "private_key": pem,
            "client_email": ACCOUNT,
            "token_uri": f"http://{self.address}:{self._tokens.server_address[1]}/token",
        }
        write_secret(self.credentials_file, json.dumps(values).encode())

    def _healthy(self) -> bool:
        try:
            return self._request("GET", "/_internal/healthcheck")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _request(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
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

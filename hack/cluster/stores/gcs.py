"""A GCS server on loopback: fake-gcs-server in memory, and a token service for an account of its own."""

import http.server
import json
import secrets
import threading
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hack.cluster import binaries
from hack.cluster.pki import write_secret
from hack.cluster.processes import ManagedProcess
from hack.cluster.stores.server import StoreServer

ACCOUNT = "tests@project.iam.gserviceaccount.com"


class GCSServer(StoreServer):
    """A GCS server.

    The server requires no credentials. A service beside it gives tokens for the assertions of
    `credentials_file`, so that clients take all steps as with the real one; `tokens_given` counts them.
    """

    title = "GCS"
    health_path = "/_internal/healthcheck"

    def __init__(self, directory: Path, *, tls: bool = False) -> None:
        super().__init__(directory, tls=tls)
        self.credentials_file = self.directory / "key.json"
        self.tokens_given = 0
        self._tokens: http.server.ThreadingHTTPServer | None = None

    def stop(self, *, grace_seconds: float | None = None) -> None:
        """End both services. Idempotent."""
        super().stop(grace_seconds=grace_seconds)
        if self._tokens is not None:
            self._tokens.shutdown()
            self._tokens.server_close()
            self._tokens = None

    def create_bucket(self, name: str) -> None:
        """Make a bucket. Raises ClusterError."""
        headers, body = {"Content-Type": "application/json"}, json.dumps({"name": name})
        self._make(f"bucket {name}", "POST", "/storage/v1/b?project=tests", headers, body, wanted=200)

    def _launch(self) -> ManagedProcess:
        program = binaries.locate(binaries.GCS_SERVER)["fake-gcs-server"]
        self._start_tokens()
        tls: list[str] = []
        if self.serving_pair:
            tls = [
                f"-cert-location={self.serving_pair.certificate}",
                f"-private-key-location={self.serving_pair.key}",
            ]
        return ManagedProcess(
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
                """Log nothing."""

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

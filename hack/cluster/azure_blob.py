"""An Azure Blob server on loopback: azurite in memory, installed once a machine from a pinned lock file."""

import base64
import hashlib
import http.client
import secrets
import shutil
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.cluster.binaries import TOOLS, cache_directory
from hack.cluster.errors import ClusterError, ProgramUnavailable
from hack.cluster.pki import CertificateAuthority, KeyPair
from hack.cluster.processes import ManagedProcess, free_port
from pinnace.storage.signing_azure import shared_key_headers

ACCOUNT = "tests"
INSTALL_TIMEOUT_SECONDS = 600.0
REQUEST_TIMEOUT_SECONDS = 10.0
START_TIMEOUT_SECONDS = 60.0
_PROGRAM = Path("node_modules", "azurite", "dist", "src", "blob", "main.js")


def why_impossible() -> str | None:
    """Why this machine cannot run the server, or None."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"azurite needs {' and '.join(missing)} in PATH" if missing else None


def locate_azurite() -> Path:
    """The program, installed into the cache if it is not there.

    Raises:
        ProgramUnavailable: npm could not install it.
    """
    source = TOOLS / "azurite"
    lock = (source / "package-lock.json").read_bytes()
    target = cache_directory() / "npm" / f"azurite-{hashlib.sha256(lock).hexdigest()[:12]}"
    if (target / _PROGRAM).is_file():
        return target / _PROGRAM
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".install-") as scratch:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, scratch)
        log = target.parent / "azurite.install.log"
        install = ManagedProcess(
            "npm ci",
            [
                shutil.which("npm") or "npm",
                "--prefix",
                scratch,
                "ci",
                "--ignore-scripts",
                "--omit=dev",
                "--no-fund",
                "--no-audit",
            ],
            log=log,
        )
        try:
            code = install.wait(INSTALL_TIMEOUT_SECONDS)
        finally:
            install.stop(grace_seconds=1)
        if code != 0:
            raise ProgramUnavailable(f"installing azurite failed with code {code}.\n{install.log_tail()}")
        if not target.exists():  # another run may have been quicker
            Path(scratch).rename(target)
            Path(scratch).mkdir()
    return target / _PROGRAM


class AzureBlobServer:
    """One server in one folder. A context manager: started on entry, stopped on exit.

    The account's key is made anew for each server and handed to it by its environment.

    Args:
        directory: the server's own folder; made if missing.
        tls: serve https with a certificate of `authority`, which is None with http.
    """

    def __init__(self, directory: Path, *, tls: bool = False) -> None:
        self.directory = directory.absolute()
        self.address = "127.0.0.1"
        self.port = free_port()
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.authority: CertificateAuthority | None = None
        self.serving_pair: KeyPair | None = None
        if tls:
            self.authority = CertificateAuthority(self.directory / "pki", name="Azure CA")
            self.serving_pair = self.authority.issue_server(
                "server", addresses=(self.address,), names=("localhost",)
            )
        self._process: ManagedProcess | None = None

    @property
    def url(self) -> str:
        """Of the server."""
        return f"{'https' if self.serving_pair else 'http'}://{self.address}:{self.port}"

    @property
    def account_url(self) -> str:
        """Of the account's blob service."""
        return f"{self.url}/{ACCOUNT}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and return when it answers.

        Raises:
            ProgramUnavailable, StartFailed: nothing is left running then.
        """
        program = locate_azurite()
        tls: list[str | Path] = []
        if self.serving_pair:
            tls = ["--cert", self.serving_pair.certificate, "--key", self.serving_pair.key]
        self._process = ManagedProcess(
            "azurite",
            [
                shutil.which("node") or "node",
                program,
                "--disableTelemetry",
                "--inMemoryPersistence",
                "--silent",
                "--blobHost",
                self.address,
                "--blobPort",
                str(self.port),
                *tls,
            ],
            log=self.directory / "azurite.log",
            env={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"},
        )
        try:
            self._process.wait_ready(self._healthy, timeout_seconds=START_TIMEOUT_SECONDS)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server. Idempotent."""
        if self._process is not None:
            self._process.stop(grace_seconds=0)
            self._process = None

    def create_container(self, name: str) -> None:
        """Make a container. Raises ClusterError."""
        path = f"/{ACCOUNT}/{name}?restype=container"
        headers = shared_key_headers(
            "PUT",
            f"{self.url}{path}",
            account=ACCOUNT,
            key=self.key,
            now=datetime.now(UTC),
            size_bytes=0,
            headers={},
        )
        status, body = self._request("PUT", path, headers)
        if status != 201:
            raise ClusterError(f"creating container {name}: {status} {body.decode(errors='replace')[:500]}")

    def _healthy(self) -> bool:
        try:
            return self._request("GET", "/", {})[0] > 0
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

"""The base of the object stores on loopback: one program in one folder, by http or by https."""

import http.client
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from hack.cluster.errors import ClusterError
from hack.cluster.pki import CertificateAuthority, KeyPair
from hack.cluster.processes import ManagedProcess, free_port

REQUEST_TIMEOUT_SECONDS = 60.0
START_TIMEOUT_SECONDS = 60.0


class StoreServer(ABC):
    """One server in one folder. A context manager: started on entry, stopped on exit.

    Args:
        directory: the server's own folder; made if missing.
        tls: serve https with `serving_pair`, a certificate of `authority`; both are None with http.
        address: of this machine, to listen on.
    """

    title: ClassVar[str]
    health_path: ClassVar[str] = "/"
    grace_seconds: ClassVar[float] = 0.0

    def __init__(self, directory: Path, *, tls: bool = False, address: str = "127.0.0.1") -> None:
        self.directory = directory.absolute()
        self.address = address
        self.port = free_port()
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.authority: CertificateAuthority | None = None
        self.serving_pair: KeyPair | None = None
        if tls:
            self.authority = CertificateAuthority(self.directory / "pki", name=f"{self.title} CA")
            self.serving_pair = self.authority.issue_server(
                "server", addresses=tuple({"127.0.0.1", address}), names=("localhost",)
            )
        self._process: ManagedProcess | None = None

    @property
    def url(self) -> str:
        """The endpoint."""
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
        try:
            self._process = self._launch()
            self._process.wait_ready(self._answers, timeout_seconds=timeout_seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self, *, grace_seconds: float | None = None) -> None:
        """End the server; `start()` brings it back on the same address. Idempotent."""
        if self._process is not None:
            self._process.stop(grace_seconds=self.grace_seconds if grace_seconds is None else grace_seconds)
            self._process = None

    @abstractmethod
    def _launch(self) -> ManagedProcess:
        """Start the program. Raises ProgramUnavailable."""

    def _is_healthy(self, status: int) -> bool:
        """Whether this answer to a request of `health_path` means that it is ready."""
        return status == 200

    def _answers(self) -> bool:
        try:
            return self._is_healthy(self._request("GET", self.health_path)[0])
        except (OSError, http.client.HTTPException):
            return False

    def _make(
        self, what: str, method: str, path: str, headers: Mapping[str, str], body: str | None, *, wanted: int
    ) -> None:
        """Send a request that creates something. Raises ClusterError with the server's answer."""
        status, answer = self._request(method, path, headers, body)
        if status != wanted:
            raise ClusterError(f"creating {what}: {status} {answer.decode(errors='replace')[:500]}")

    def _request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, body, dict(headers or {}))
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

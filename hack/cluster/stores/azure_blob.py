"""An Azure Blob server on loopback: azurite in memory, installed once a machine from a pinned lock file."""

import base64
import hashlib
import secrets
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hack.cluster.binaries import TOOLS, cache_directory
from hack.cluster.errors import ProgramUnavailable
from hack.cluster.processes import ManagedProcess
from hack.cluster.stores.server import StoreServer
from pinnace.storage.azure.signing import StorageAccount, shared_key_headers

ACCOUNT = "tests"
INSTALL_TIMEOUT_SECONDS = 600.0
_PROGRAM = Path("node_modules", "azurite", "dist", "src", "blob", "main.js")


def why_impossible() -> str | None:
    """Return why this machine cannot run the server, or None if it can."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"azurite needs {' and '.join(missing)} in PATH" if missing else None


def locate_azurite() -> Path:
    """Return the program, installed into the cache if it is missing.

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


class AzureBlobServer(StoreServer):
    """An Azure Blob server. Each has a new account key, which it gets by its environment."""

    title = "Azure"

    def __init__(self, directory: Path, *, tls: bool = False) -> None:
        super().__init__(directory, tls=tls)
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()

    @property
    def account_url(self) -> str:
        """The URL of the account's blob service."""
        return f"{self.url}/{ACCOUNT}"

    def create_container(self, name: str) -> None:
        """Make a container. Raises ClusterError."""
        path = f"/{ACCOUNT}/{name}?restype=container"
        headers = shared_key_headers(
            "PUT",
            f"{self.url}{path}",
            StorageAccount(name=ACCOUNT, key=self.key),
            now=datetime.now(UTC),
            size_bytes=0,
            headers={},
        )
        self._make(f"container {name}", "PUT", path, headers, None, wanted=201)

    def _launch(self) -> ManagedProcess:
        program = locate_azurite()
        tls: list[str | Path] = []
        if self.serving_pair:
            tls = ["--cert", self.serving_pair.certificate, "--key", self.serving_pair.key]
        return ManagedProcess(
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

    def _is_healthy(self, status: int) -> bool:
        return True  # it asks for credentials even here; any answer is enough

"""The command without a server, as a process."""

import base64
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

from hack.cluster.stores.s3 import Bucket, S3Server
from tests.e2e.without_server.command import Pinnace

PASSWORD = "a-word-that-must-stay-in-the-cluster"


ENCODED_PASSWORD = base64.b64encode(PASSWORD.encode()).decode()


class MakePinnace(Protocol):
    """The `pinnace_for` fixture."""

    def __call__(
        self, location: str | None, *, kubeconfig: Path | None = None, environ: dict[str, str] | None = None
    ) -> Pinnace: ...


def s3_url(bucket: Bucket, *, prefix: str = "", server_url: str | None = None, **parameters: str) -> str:
    """The location URL of a bucket; `server_url` leads through a proxy."""
    config = {**bucket.location_config, **parameters}
    if server_url is not None:
        config["s3Url"] = server_url
    return f"s3://{bucket.name}/{prefix}?{urlencode(config)}"


def s3_environ(server: S3Server) -> dict[str, str]:
    """Variables that lead to the server's credentials."""
    return {"AWS_SHARED_CREDENTIALS_FILE": str(server.credentials_file)}


def exists(path: Path) -> bool:
    """Whether a file or folder exists."""
    return path.exists()


def files_in(folder: Path) -> dict[str, bytes]:
    """The files of a folder by relative path; none if it does not exist."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored(bucket: Bucket) -> set[str]:
    """The keys in a bucket, as its server keeps them."""
    root = bucket.server.directory / "buckets" / bucket.name
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

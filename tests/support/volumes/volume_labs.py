"""restic repositories, and volumes to save in them."""

import base64
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hack.cluster.stores.s3 import Bucket
from pinnace.api.codec import decode
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.restic.identifiers import repository_identifier
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE

PASSWORD = "a-password-of-its-own"


TAGS = {"backup": "b1", "backup-uid": "u1", "pod": "p", "pod-uid": "u2", "ns": "shop", "volume": "data"}


class Lab:
    """A location with a repository for the namespace `shop`, and a volume.

    Attributes:
        work: the folder of restic's private files; empty whenever no call is in flight.
        volume: the directory to save.
    """

    def __init__(self, folder: Path, location: Mapping[str, Any]) -> None:
        self.cluster = ScriptedCluster()
        self.work = folder / "work"
        self.volume = folder / "volume"
        self.work.mkdir()
        self.volume.mkdir()
        obj = self.cluster.add("backupstoragelocations", "default", spec=location)
        self.cluster.add(
            "secrets", SECRET_NAME, data={SECRET_KEY: base64.b64encode(PASSWORD.encode()).decode()}
        )
        identifier = repository_identifier(decode(BackupStorageLocation, obj), "shop")
        self.repository = Repository(identifier=identifier, location="default")
        self.accesses = AccessProvider(
            self.cluster.client, NAMESPACE, self.work, inherited=self.environment(folder)
        )
        self.restic = Restic(self.accesses)

    @staticmethod
    def environment(folder: Path) -> dict[str, str]:
        """The environment of restic: of the developer's own, only PATH."""
        program = shutil.which("restic")
        assert program is not None
        return {"PATH": str(Path(program).parent), "HOME": str(folder), "VELERO_SCRATCH_DIR": str(folder)}

    def set_password(self, password: str) -> None:
        secret = self.cluster.stored("secrets", SECRET_NAME)
        secret["data"][SECRET_KEY] = base64.b64encode(password.encode()).decode()

    def fill(self, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            path = self.volume / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def cloud_lab(folder: Path, bucket: Bucket) -> Lab:
    lab = Lab(
        folder,
        {
            "provider": "aws",
            "config": bucket.location_config,
            "objectStorage": {"bucket": bucket.name, "prefix": "site"},
            "credential": {"name": "cloud", "key": "keys"},
        },
    )
    text = bucket.server.credentials_file.read_bytes()
    lab.cluster.add("secrets", "cloud", data={"keys": base64.b64encode(text).decode()})
    return lab

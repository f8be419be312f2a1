"""Shared by the tests of PodVolumeBackups and PodVolumeRestores: pods, a repository, and a node agent."""

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.archive.runlog import RunLog
from pinnace.volumes.outcomes import SeenTransfers
from pinnace.volumes.pods.pod_volume_run import PodVolumeRun
from pinnace.volumes.pods.timeouts import Timeout
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.uploader.locks import RepositoryLocks
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE

Answer = Callable[[JSONObject], JSONObject | None]


def completed(_obj: JSONObject) -> JSONObject:
    """The status that an agent stores after success."""
    return {"phase": "Completed", "snapshotID": "2fa3b4c5", "progress": {}}


def silent(_obj: JSONObject) -> None:
    """The answer of a node without an agent."""


class PodVolumeScene:
    """A ready repository `repo` for the namespace `shop`, and an agent that ends each object at once."""

    def __init__(self, folder: Path) -> None:
        self.cluster = ScriptedCluster()
        self.cluster.on_create = self._answer
        self.locks = RepositoryLocks()
        self.outcomes = SeenTransfers(self._synced)
        self.answer: Answer = completed
        self.log = RunLog(folder / "log.gz", fields={})
        marks = {labels.VOLUME_NAMESPACE: "shop", labels.STORAGE_LOCATION: "default"}
        spec = {
            "volumeNamespace": "shop",
            "backupStorageLocation": "default",
            "resticIdentifier": "s3:x/restic/shop",
            "maintenanceFrequency": "168h0m0s",
        }
        self.cluster.add("backuprepositories", "repo", labels=marks, spec=spec, status={"phase": "Ready"})
        self.repositories = Repositories(self.cluster.client, NAMESPACE)
        self.created = asyncio.Event()

    def add_kopia(self) -> None:
        """A ready repository of kopia for the same namespace."""
        marks = {labels.VOLUME_NAMESPACE: "shop", labels.STORAGE_LOCATION: "default"}
        spec = {
            "volumeNamespace": "shop",
            "backupStorageLocation": "default",
            "repositoryType": "kopia",
            "resticIdentifier": "",
            "maintenanceFrequency": "1h0m0s",
        }
        self.cluster.add(
            "backuprepositories", "repo-kopia", labels=marks, spec=spec, status={"phase": "Ready"}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.log.close()

    @staticmethod
    async def _synced() -> None:
        return

    def timeout(self, seconds: float = 60.0, **annotations: str) -> Timeout:
        return Timeout(annotations, Duration.seconds(seconds))

    def run(self, timeout: Timeout | None = None, settle_seconds: float = 0.0) -> PodVolumeRun:
        return PodVolumeRun(
            repositories=self.repositories,
            locks=self.locks,
            outcomes=self.outcomes,
            timeout=timeout or self.timeout(),
            settle_seconds=settle_seconds,
            clock=self.cluster.clock,
        )

    def _answer(self, obj: JSONObject) -> None:
        self.created.set()
        status = self.answer(obj)
        self.outcomes.seen(obj)
        if status is not None:
            ended = copy.deepcopy(obj)
            ended["status"] = status
            self.outcomes.seen(ended)
            self.outcomes.seen(ended)  # a watch may tell a thing twice


def a_pod(*volumes: JSONObject, name: str = "p") -> JSONObject:
    return {
        "metadata": {"namespace": "shop", "name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": "node-1", "volumes": list(volumes)},
        "status": {"phase": "Running"},
    }


def empty_dir(name: str) -> JSONObject:
    return {"name": name, "emptyDir": {}}


def claimed(name: str, claim: str) -> JSONObject:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}

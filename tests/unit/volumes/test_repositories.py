"""Repositories on demand: found by labels, made once, waited for."""

import asyncio
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.values.durations import Duration
from pinnace.kube.errors import ConnectionFailed
from pinnace.volumes import repositories
from pinnace.volumes.repositories import (
    DEFAULT_FREQUENCY,
    Inspection,
    LookFor,
    Repositories,
    RepositoryUnavailable,
)
from pinnace.volumes.uploader.access import Repository
from tests.support.clock import ScriptedClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE, fail_once

PLURAL = "backuprepositories"


class Scene:
    """A cluster whose repository controller works while the code under test sleeps."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster()
        self.becomes: dict[str, str] | None = {"phase": "Ready"}

    def repositories(
        self,
        frequency: Duration = DEFAULT_FREQUENCY,
        config_map: str = "",
        look: LookFor | None = None,
    ) -> Repositories:
        return Repositories(
            self.cluster.client,
            NAMESPACE,
            frequency=frequency,
            config_map=config_map,
            look=look,
            clock=ScriptedClock(self._sleep),
        )

    def add(self, name: str, *, namespace: str = "shop", location: str = "default", **status: str) -> None:
        marks = {
            labels.VOLUME_NAMESPACE: labels.label_value(namespace),
            labels.STORAGE_LOCATION: labels.label_value(location),
        }
        spec = {"volumeNamespace": namespace, "backupStorageLocation": location, "resticIdentifier": "id"}
        spec["maintenanceFrequency"] = "1h0m0s"
        self.cluster.add(PLURAL, name, labels=marks, spec=spec, status=status)

    async def _sleep(self, _seconds: float) -> None:
        if self.becomes is None:
            await asyncio.get_running_loop().create_future()
        for obj in self.cluster.of(PLURAL):
            obj["status"] = dict(self.becomes or {})


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.spec("PVL-049")
async def test_a_missing_repository_is_made_and_used_when_ready(scene: Scene) -> None:
    repository = await scene.repositories(Duration.hours(5)).ensure("shop", "default")

    [made] = scene.cluster.of(PLURAL)
    assert made["metadata"]["generateName"] == "shop-default-restic-"
    assert made["metadata"]["labels"] == {
        "velero.io/volume-namespace": "shop",
        "velero.io/storage-location": "default",
        "velero.io/repository-type": "restic",
    }
    assert made["spec"] == {
        "volumeNamespace": "shop",
        "backupStorageLocation": "default",
        "repositoryType": "restic",
        "resticIdentifier": "",
        "maintenanceFrequency": "5h0m0s",
    }
    assert repository.metadata.name == made["metadata"]["name"]
    assert repository.status.phase == "Ready"


async def test_a_ready_repository_is_used(scene: Scene) -> None:
    scene.add("other", namespace="bank", phase="Ready")
    scene.add("mine", phase="Ready")

    assert (await scene.repositories().ensure("shop", "default")).metadata.name == "mine"
    assert scene.cluster.writes() == []


async def test_a_repository_that_was_just_made_is_waited_for(scene: Scene) -> None:
    scene.add("mine", phase="New")

    assert (await scene.repositories().ensure("shop", "default")).status.phase == "Ready"


@pytest.mark.spec("PVL-050")
async def test_a_repository_that_is_not_ready_is_an_error(scene: Scene) -> None:
    scene.add("mine", phase="NotReady", message="m")

    with pytest.raises(RepositoryUnavailable) as caught:
        await scene.repositories().ensure("shop", "default")

    assert str(caught.value) == "restic repository is not ready: m"


@pytest.mark.spec("PVL-051")
async def test_two_repositories_are_an_error(scene: Scene) -> None:
    scene.add("one", phase="Ready")
    scene.add("two", phase="Ready")

    with pytest.raises(RepositoryUnavailable) as caught:
        await scene.repositories().ensure("shop", "default")

    assert str(caught.value) == (
        'more than one BackupRepository found for workload namespace "shop", '
        'backup storage location "default"'
    )


@pytest.mark.spec("PVL-052")
async def test_a_repository_that_stays_new_is_waited_for_a_minute(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repositories.READY_SECONDS == 60
    monkeypatch.setattr(repositories, "READY_SECONDS", 0.0)
    scene.becomes = None

    with pytest.raises(RepositoryUnavailable) as caught:
        await scene.repositories().ensure("shop", "default")

    assert str(caught.value) == "timed out waiting for restic repository to become ready"


@pytest.mark.spec("PVL-058")
async def test_long_names_are_shortened_in_labels_and_found_again(scene: Scene) -> None:
    namespace, location = "n" * 70, "l" * 70

    first = await scene.repositories().ensure(namespace, location)
    second = await scene.repositories().ensure(namespace, location)

    assert first.metadata.name == second.metadata.name
    assert first.spec.volume_namespace == namespace
    assert [len(value) for value in first.metadata.labels.values()] == [63, 63, len("restic")]


async def test_simultaneous_requests_make_one_repository(scene: Scene) -> None:
    repositories = scene.repositories()

    found = await asyncio.gather(*(repositories.ensure("shop", "default") for _ in range(5)))

    assert len({repository.metadata.name for repository in found}) == 1
    assert len(scene.cluster.of(PLURAL)) == 1


@pytest.mark.parametrize("moment", ["before", "after"], ids=["request lost", "answer lost"])
async def test_a_broken_connection_makes_exactly_one_repository(scene: Scene, moment: str) -> None:
    setattr(scene.cluster, moment, fail_once("create", PLURAL))

    await scene.repositories().ensure("shop", "default")

    assert len(scene.cluster.of(PLURAL)) == 1


async def test_a_repository_that_cannot_be_made_is_an_error(scene: Scene) -> None:
    def refuse(*call: Any) -> None:
        if call[0] in ("create", "get"):
            raise ConnectionFailed("no way")

    scene.cluster.before = refuse
    with pytest.raises(RepositoryUnavailable, match="unable to create restic repository resource: no way"):
        await scene.repositories().ensure("shop", "default")


async def test_without_a_namespace_there_is_no_repository(scene: Scene) -> None:
    with pytest.raises(RepositoryUnavailable, match="namespace of its volume is not known"):
        await scene.repositories().ensure("", "default")
    assert scene.cluster.calls == []


@pytest.mark.parametrize("backup", ["", "b1"], ids=["restore", "backup"])
async def test_only_a_backup_asks_for_a_new_repository(scene: Scene, backup: str) -> None:
    await scene.repositories().ensure("shop", "default", backup=backup)

    [made] = scene.cluster.of(PLURAL)
    assert made["metadata"].get("annotations", {}).get(labels.INITIALIZE_REPOSITORY, "") == backup


async def test_a_backup_retries_a_repository_that_a_restore_did_not_find(scene: Scene) -> None:
    scene.add("mine", phase="NotReady", message="there is none")

    repository = await scene.repositories().ensure("shop", "default", backup="b1")

    assert repository.status.phase == "Ready"
    [found] = scene.cluster.of(PLURAL)
    assert found["metadata"]["annotations"] == {labels.INITIALIZE_REPOSITORY: "b1"}


class Looking:
    """Attributes:
    found: the next answers; the last one stays.
    looks: how often was looked.
    """

    def __init__(self, *found: Inspection | None) -> None:
        self.found = list(found)
        self.looks = 0

    async def __call__(self, _repository: Repository) -> Inspection | None:
        self.looks += 1
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]


HERE = Inspection(place="here", is_missing=False)


@pytest.mark.found("E-F2", "V28")
@pytest.mark.parametrize(
    ("look", "asks"),
    [
        (HERE, False),
        (None, False),
        (Inspection(place="here", is_missing=True), True),
        (Inspection(place="there", is_missing=False), True),
    ],
    ids=["there", "unknown", "missing", "moved"],
)
async def test_a_backup_does_not_believe_that_a_repository_is_still_where_it_was(
    scene: Scene, look: Inspection | None, asks: bool
) -> None:
    scene.add("mine", phase="Ready")
    [obj] = scene.cluster.of(PLURAL)
    obj["metadata"]["annotations"] = {labels.REPOSITORY_PLACE: "here"}
    looking = Looking(look, HERE)

    repository = await scene.repositories(look=looking).ensure("shop", "default", backup="b1")

    assert repository.status.phase == "Ready"
    assert bool(scene.cluster.writes()) is asks
    if asks:
        [obj] = scene.cluster.of(PLURAL)
        assert obj["metadata"]["annotations"][labels.INITIALIZE_REPOSITORY] == "b1"


async def test_a_backup_looks_once_for_each_repository_and_a_restore_not_at_all(scene: Scene) -> None:
    scene.add("mine", phase="Ready")
    looking = Looking(HERE)
    repositories = scene.repositories(look=looking)

    await repositories.ensure("shop", "default")
    assert looking.looks == 0
    for backup in ("b1", "b1", "b2", "b1"):
        await repositories.ensure("shop", "default", backup=backup)
    assert looking.looks == 2


@pytest.mark.parametrize(
    ("uploader", "settings"),
    [("kopia", {"cacheLimitMB": "9", "fullMaintenanceInterval": "eagerGC"}), ("restic", {})],
)
async def test_a_new_repository_gets_the_settings_of_its_uploader(
    scene: Scene, uploader: str, settings: dict[str, str]
) -> None:
    document = '{"cacheLimitMB": 9, "fullMaintenanceInterval": "eagerGC"}'
    scene.cluster.add("configmaps", "settings", data={"kopia": document})

    repository = await scene.repositories(config_map="settings").ensure("shop", "default", uploader=uploader)

    assert repository.spec.repository_config == settings


@pytest.mark.parametrize(
    ("data", "problem"),
    [(None, "cannot be read: "), ({"kopia": "[]"}, "cannot be used: kopia: it is not a JSON object")],
    ids=["missing", "not valid"],
)
async def test_no_repository_is_made_with_settings_that_cannot_be_used(
    scene: Scene, data: dict[str, str] | None, problem: str
) -> None:
    if data is not None:
        scene.cluster.add("configmaps", "settings", data=data)

    with pytest.raises(RepositoryUnavailable) as refused:
        await scene.repositories(config_map="settings").ensure("shop", "default", uploader="kopia")

    where = "the ConfigMap velero/settings that --backup-repository-configmap names"
    assert str(refused.value).startswith(f"{where} {problem}")
    assert scene.cluster.of(PLURAL) == []

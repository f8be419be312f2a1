"""Every kind of work is broken off at each of its writes, and comes to its end all the same.

A process dies before or after a write, and another one begins; or the write, or the answer to it, is lost,
and the same process goes on. Each kind says how its processes begin and work, and what must hold in the end.
(docs/spec: CTL 15)
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol, cast

import pytest
from msgspec.structs import replace as replaced

from pinnace.api import labels
from pinnace.api.objects import mapping, text
from pinnace.api.phases import BackupPhase
from pinnace.api.resuming import resumed
from pinnace.api.values.durations import Duration
from pinnace.api.velero.data_movement import DataDownload, DataUpload
from pinnace.controllers.backup_repository import RepositoryReconciler
from pinnace.controllers.node import pod_volume_backup, pod_volume_restore
from pinnace.controllers.node.data_download import DataDownloadWork
from pinnace.controllers.node.data_upload import DataUploadWork
from pinnace.controllers.node.holding import ATTEMPTS_ANNOTATION
from pinnace.controllers.node.moving import STARTABLE, Moving
from pinnace.controllers.node.presence import held
from pinnace.controllers.node.reconciler import PodVolumeReconciler
from pinnace.controllers.node.scope import AgentName
from pinnace.controllers.node.volumes import VolumeContent
from pinnace.controllers.registry import CONTROLLERS
from pinnace.controllers.shared.repository_presence import RepositoryPresence
from pinnace.controllers.shared.runs import BACKUP_RUNS, RESTORE_RUNS, RunDecision, RunReconciler
from pinnace.controllers.shared.settling import ORPHAN_REASON, Settler
from pinnace.csi.movement.rebinding import FORMER_POLICY
from pinnace.csi.movement.uploads import CONTENT
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import DATA_DOWNLOADS, DATA_UPLOADS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from pinnace.runtime.backoff import RetryDelay
from pinnace.runtime.keys import Key
from pinnace.volumes.restic.errors import command_failed
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.locks import RepositoryLocks
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import BROKEN, World, key
from tests.unit.controllers.node.world import NODE, NodeWorld, waiting
from tests.unit.controllers.volumes.stage import SHOP, Stage
from tests.unit.nonadmin.memory import BACKUPS, Service

MOST_WRITES: Final = 60
MOST_PASSES: Final = 60


class Killed(BaseException):
    """The process died."""


class Life(Protocol):
    """The work on one object."""

    @property
    def api(self) -> ScriptedCluster:
        """The cluster; writes to it are counted."""
        ...

    def begin(self) -> Callable[[], Awaitable[object]]:
        """A new process, which knows nothing of those before; the result is one pass of it."""
        ...

    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        ...

    def check(self, *, died: bool) -> None:
        """Assert what holds in the end.

        Args:
            died: whether a process has died on the way.
        """
        ...


class RunLife:
    """A Backup or Restore: carried out once, and resumed only where that is wanted."""

    def __init__(self, folder: Path, plural: str, *, resumes: bool = False, leads: bool = True) -> None:
        self.resumes, self.leads = resumes, leads
        self.world = World(folder)
        self.world.add_location()
        self.api = self.world.cluster
        self.plural = plural
        self.executed = 0
        self.world.cluster.add(plural, "run", spec={"storageLocation": "default"})

    async def plan(self, run: Any, _caveats: Sequence[str] = ()) -> RunDecision[Any]:
        started = replaced(run.status, phase=BackupPhase.IN_PROGRESS, start_timestamp=self.world.clock.now())
        return RunDecision(begun=replaced(run, status=started), execute=self.execute)

    async def plan_again(self, run: Any, before: Any, times: int) -> RunDecision[Any]:
        decision = await self.plan(run)
        return replace(decision, begun=resumed(decision.begun, before, times))

    async def execute(self, run: Any, _read: object) -> Any:
        self.executed += 1
        return replaced(run, status=replaced(run.status, phase=BackupPhase.COMPLETED))

    def taken(self, _run: object) -> None:
        pass

    def ended(self, _run: object) -> None:
        pass

    def begin(self) -> Callable[[], Awaitable[object]]:
        scope = replace(self.world.scope, leads=self.leads)
        settler = Settler(scope, self.world.locations, resumes=self.resumes)
        kind: Any = BACKUP_RUNS if self.plural == "backups" else RESTORE_RUNS
        reconciler = RunReconciler(scope, kind, cast(Any, self), settler)
        preparations = [settler.settle_orphans]

        async def one_pass() -> None:
            # Caches are filled before anything is prepared, and an object is seen when it changes.
            obj = self.api.stored(self.plural, "run")
            if (version := obj["metadata"]["resourceVersion"]) not in seen and reconciler.concerns(obj):
                queued.add(key("run"))
            seen.add(version)
            while preparations:
                await preparations[-1]()
                preparations.pop()
            # Until a pass ends without an error.
            if queued and (await reconciler.reconcile(key("run"))).requeue_after_seconds is None:
                queued.clear()

        queued: set[Key] = set()
        seen: set[str] = set()
        return one_pass

    @property
    def status(self) -> dict[str, Any]:
        return self.api.status(self.plural, "run")

    def is_over(self) -> bool:
        return self.status.get("phase") in ("Completed", "Failed")

    def check(self, *, died: bool) -> None:
        if self.resumes:
            assert self.status["phase"] == "Completed"
            assert died or self.executed == 1
            return
        assert self.executed <= 1
        if self.status["phase"] == "Failed":
            assert died
            assert self.status["failureReason"].startswith(
                ORPHAN_REASON.format(kind=self.plural.removesuffix("s"))
            )
        else:
            assert self.executed == 1


class NodeLife:
    """A volume that an agent saves or fills: begun again by the next agent of the node."""

    def __init__(self, folder: Path, plural: str) -> None:
        self.world = NodeWorld(folder)
        self.world.add_pod(**waiting("restic-wait"))
        self.mount = self.world.volume()
        self.api = self.world.cluster
        self.plural = plural
        self.agents = 0
        getattr(self, f"add_{plural}")()

    def add_podvolumebackups(self) -> None:
        tags = {"backup": "b1", "backup-uid": "u1", "ns": "shop", "pod": "p", "pod-uid": "uid-p"}
        self.world.add_backup("it")["spec"]["tags"] = {**tags, "volume": "data"}

    def add_podvolumerestores(self) -> None:
        self.world.add_restore("it")

    def add_datauploads(self) -> None:
        own_labels = {labels.BACKUP_NAME: "b1", labels.BACKUP_UID: "u1", labels.PVC_UID: "u3"}
        spec = {"sourceNamespace": "shop", "sourcePVC": "data", "backupStorageLocation": "default"}
        self.api.add(self.plural, "it", labels=own_labels, spec=spec, status=self.prepared)
        self.api.stored(self.plural, "it")["apiVersion"] = DATA_UPLOADS.api_version

    def add_datadownloads(self) -> None:
        spec = {"sourceNamespace": "shop", "snapshotID": "a", "backupStorageLocation": "default"}
        target = {"namespace": "shop", "pvc": "data", "pv": ""}
        self.api.add(self.plural, "it", spec={**spec, "targetVolume": target}, status=self.prepared)
        self.api.stored(self.plural, "it")["apiVersion"] = DATA_DOWNLOADS.api_version

    prepared: Final = {"phase": "Prepared", "node": NODE}

    def begin(self) -> Callable[[], Awaitable[object]]:
        self.agents += 1
        agent = AgentName("node-agent-now", str(self.agents))
        scope = replace(self.world.scope, agent=agent)
        reconciler: Any
        if self.plural == "podvolumebackups":
            reconciler = pod_volume_backup.new_reconciler(scope, self.world.backups)
        elif self.plural == "podvolumerestores":
            reconciler = pod_volume_restore.new_reconciler(scope, self.world.restores)
        else:
            moving = cast(Moving, Mounted(self.mount))
            uploads = self.plural == "datauploads"
            resource = DATA_UPLOADS if uploads else DATA_DOWNLOADS
            make: Any = DataUploadWork if uploads else DataDownloadWork
            work = make(moving, self.world.restic, self.world.metrics)
            struct: Any = DataUpload if uploads else DataDownload
            reconciler = PodVolumeReconciler(scope, resource, struct, work, startable=STARTABLE)

        is_new = [True]

        async def one_pass() -> None:
            obj = self.api.stored(self.plural, "it")
            if is_new and is_new.pop() and text(obj, "status", "phase") == "InProgress":
                await reconciler.fail_orphan(obj)
            await reconciler.reconcile(key("it"))

        return one_pass

    @property
    def status(self) -> dict[str, Any]:
        return self.api.status(self.plural, "it")

    def is_over(self) -> bool:
        return self.status.get("phase") == "Completed"

    def check(self, *, died: bool) -> None:
        attempts = mapping(self.api.stored(self.plural, "it"), "metadata", "annotations")
        assert 1 <= int(attempts[ATTEMPTS_ANNOTATION]) <= self.agents
        assert (self.agents > 1) == died
        saved = [call for call in self.world.restic.calls if call[0] in ("backup", "restore")]
        if self.plural in ("podvolumebackups", "datauploads"):
            # What a dead agent saved is removed before it is saved again: just one snapshot is left.
            assert len(saved) - len(self.world.restic.forgotten) <= 1
            assert self.status["snapshotID"] not in self.world.restic.forgotten
        assert 1 <= len(saved) <= self.agents


class Mounted:
    """Says where the volume of a snapshot is mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_due(self, _movement: object) -> bool:
        return True

    async def content(self, _movement: object) -> VolumeContent:
        return VolumeContent(path=self.path)

    def held(self, content: VolumeContent) -> AbstractAsyncContextManager[None]:
        return held(content.path)


class MovementLife:
    """The server's part of moving data: any server goes on where another one ended.

    The driver needs a Secret and a ConfigMap of the claim's namespace. (docs/spec: AFT-175)

    Args:
        in_place: whether the claim of a DataDownload has a volume already.
        spec: of the object.
    """

    def __init__(
        self, folder: Path, plural: str, outcome: str, *, in_place: bool = False, **spec: Any
    ) -> None:
        self.stage = Stage(folder)
        self.api = self.stage.api
        self.plural, self.outcome = plural, outcome
        self.is_image, self.in_place = bool(spec), in_place
        self.stage.add_companions()
        if in_place:
            self.stage.add_download_in_place()
        elif plural == "datadownloads":
            self.stage.add_download(**spec)
        else:
            self.stage.add_upload()

    def begin(self) -> Callable[[], Awaitable[object]]:
        async def one_pass() -> None:
            try:
                await self.stage.step()
            finally:
                self.stage.cluster_acts()
                if self.stage.phase == "Prepared":
                    if self.outcome == "Canceled":
                        self.stage.cancel()
                    else:
                        self.stage.transfer(self.outcome)

        return one_pass

    def is_over(self) -> bool:
        return self.stage.phase == self.outcome and not self.stage.obj["metadata"]["finalizers"]

    def check(self, *, died: bool) -> None:
        assert self.stage.temporary() == []
        assert self.stage.copies() == []
        names = {"datauploads": "data-upload", "datadownloads": "data-download"}
        (line,) = (each for each in CONTROLLERS if each.name == names[self.plural])
        deleted = {call[1] for call in self.api.calls if call[0] == "delete"}
        allowed = {kind.partition(".")[0] for kind in line.deletes}
        if self.in_place:
            assert deleted == allowed - {"persistentvolumes"}
            self.check_own_volume()
            return
        filled = self.outcome == "Completed" and self.plural == "datadownloads"
        unused = set() if filled and self.is_image else {"persistentvolumes"}
        assert deleted == allowed - unused, "its rights follow from its line"
        claim = self.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP)
        assert claim is not None
        assert ("volumeName" in claim["spec"]) == filled
        volumes = self.api.of(PERSISTENT_VOLUMES)
        assert len(volumes) == filled, volumes
        if self.plural == "datadownloads":
            assert self.stage.storage == ("there" if filled else "deleted")
        for volume in volumes:
            assert volume["metadata"]["name"] == claim["spec"]["volumeName"]
            assert (volume["metadata"]["name"] == "pv") != self.is_image
            assert volume["spec"]["csi"]["volumeHandle"] == "storage"
            assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
            assert FORMER_POLICY not in volume["metadata"]["annotations"]

    def check_own_volume(self) -> None:
        """The claim has its volume, unless a part of the data may be in it. Nothing is deleted."""
        claim, volume = (
            self.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP),
            self.api.peek(PERSISTENT_VOLUMES, "pv", ""),
        )
        assert claim is not None
        assert volume is not None
        withheld = self.outcome == "Failed"
        assert claim["metadata"]["uid"] == self.stage.claim["metadata"]["uid"]
        assert claim["status"]["phase"] == ("Lost" if withheld else "Bound")
        policy = volume["spec"]["persistentVolumeReclaimPolicy"]
        assert policy == ("Retain" if withheld else "Delete")
        assert (FORMER_POLICY in volume["metadata"]["annotations"]) == withheld
        assert self.stage.storage == "there"


class RepositoryLife:
    """A repository that a backup asked for: made once, and then Ready."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.world.add_location()
        self.api = self.world.cluster
        self.made = 0
        marks = {labels.VOLUME_NAMESPACE: "shop", labels.STORAGE_LOCATION: "default"}
        spec = {"volumeNamespace": "shop", "backupStorageLocation": "default", "maintenanceFrequency": "0s"}
        self.api.add("backuprepositories", "repo", labels=marks, spec=spec, status={})
        metadata = self.api.stored("backuprepositories", "repo")["metadata"]
        metadata["annotations"] = {labels.INITIALIZE_REPOSITORY: "true"}

    async def connect(self, _repository: Repository) -> None:
        if not self.made:
            stderr = "Fatal: x\nIs there a repository at the following location?\ny"
            raise command_failed("restic x", exit_code=1, stdout="", stderr=stderr)

    async def init(self, _repository: Repository) -> None:
        self.made += 1

    async def unlock(self, _repository: Repository) -> None:
        pass

    async def maintain(self, _repository: Repository) -> None:
        pass

    def begin(self) -> Callable[[], Awaitable[object]]:
        presence = RepositoryPresence(self.world.locations)
        reconciler = RepositoryReconciler(
            self.world.scope, presence, self, RepositoryLocks(), frequency=Duration()
        )
        return lambda: reconciler.reconcile(key("repo"))

    def is_over(self) -> bool:
        return self.api.status("backuprepositories", "repo").get("phase") == "Ready"

    def check(self, *, died: bool) -> None:
        assert self.made == 1


class RequestLife:
    """A tenant's request for a backup: one Backup comes of it."""

    def __init__(self, folder: Path) -> None:
        self.api = ScriptedCluster()
        self.request = self.api.add(NON_ADMIN_BACKUPS, "nightly", "shop", spec={"backupSpec": {}})

    def begin(self) -> Callable[[], Awaitable[object]]:
        reconciler = Service(self.api).reconcilers[NON_ADMIN_BACKUPS]
        return lambda: reconciler.reconcile(Key("shop", "nightly"))

    @property
    def phase(self) -> str:
        found = self.api.peek(NON_ADMIN_BACKUPS, "nightly", "shop")
        return text(found, "status", "phase")

    def is_over(self) -> bool:
        return self.phase == "Created"

    def check(self, *, died: bool) -> None:
        found = self.api.peek(NON_ADMIN_BACKUPS, "nightly", "shop")
        (backup,) = self.api.of(BACKUPS)
        assert backup["metadata"]["name"] == text(found, "status", "veleroBackup", "nacuuid")


LIVES: Final[dict[str, Callable[[Path], Life]]] = {
    "Backup": lambda folder: RunLife(folder, "backups"),
    "Restore": lambda folder: RunLife(folder, "restores"),
    "Restore that is resumed": lambda folder: RunLife(folder, "restores", resumes=True),
    "Restore that is resumed without a Lease": lambda folder: RunLife(
        folder, "restores", resumes=True, leads=False
    ),
    "PodVolumeBackup": lambda folder: NodeLife(folder, "podvolumebackups"),
    "PodVolumeRestore": lambda folder: NodeLife(folder, "podvolumerestores"),
    "DataUpload on a node": lambda folder: NodeLife(folder, "datauploads"),
    "DataDownload on a node": lambda folder: NodeLife(folder, "datadownloads"),
    "DataUpload of a server": lambda folder: MovementLife(folder, "datauploads", "Completed"),
    "DataUpload that fails": lambda folder: MovementLife(folder, "datauploads", "Failed"),
    "DataDownload of a server": lambda folder: MovementLife(folder, "datadownloads", "Completed"),
    "DataDownload that fails": lambda folder: MovementLife(folder, "datadownloads", "Failed"),
    "DataDownload of an image": lambda folder: MovementLife(
        folder, "datadownloads", "Completed", datamover="velero-block"
    ),
    "DataDownload into the volume of its claim": lambda folder: MovementLife(
        folder, "datadownloads", "Completed", in_place=True
    ),
    "DataDownload into the volume of its claim that fails": lambda folder: MovementLife(
        folder, "datadownloads", "Failed", in_place=True
    ),
    "DataDownload into the volume of its claim that is canceled": lambda folder: MovementLife(
        folder, "datadownloads", "Canceled", in_place=True
    ),
    "BackupRepository": RepositoryLife,
    "NonAdminBackup": RequestLife,
}

FAULTS: Final[dict[str, tuple[str, BaseException]]] = {
    "killed before": ("before", Killed()),
    "killed after": ("after", Killed()),
    "request lost": ("before", BROKEN),
    "answer lost": ("after", BROKEN),
}


def is_over(life: Life) -> bool:
    return life.is_over()


def is_over_or_failed(life: Life) -> bool:
    """Whether nothing is left to do, as the work is done or has failed."""
    return life.is_over() or any(
        text(obj, "status", "phase") == "Failed" and not obj["metadata"].get("finalizers")
        for obj in life.api.objects.values()
    )


async def brought_to_its_end(life: Life, is_over: Callable[[Life], bool] = is_over) -> bool:
    """Let processes work until nothing is left to do; return whether one has died."""
    one_pass, died = life.begin(), False
    for _ in range(MOST_PASSES):
        try:
            await one_pass()
        except Killed:
            one_pass, died = life.begin(), True
        except KubeError:
            pass  # a controller tries the key again
        if is_over(life):
            return died
    raise AssertionError(life.api.objects)


@pytest.mark.found("V15")
@pytest.mark.spec("NAC-023")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", LIVES)
async def test_work_that_breaks_off_at_any_write_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fault: str
) -> None:
    monkeypatch.setattr(RetryDelay, "next_delay", lambda _self: 0.0)
    order, error = FAULTS[fault]
    for number in range(1, MOST_WRITES):
        folder = tmp_path / str(number)
        folder.mkdir()
        life, writes = LIVES[kind](folder), [number]

        def strike(verb: str, *_names: str, left: list[int] = writes) -> None:
            if verb in ("create", "patch", "delete"):
                left[0] -= 1
                if left[0] == 0:
                    raise error

        setattr(life.api, order, strike)
        try:
            life.check(died=await brought_to_its_end(life))
        except AssertionError as failure:
            failure.add_note(f"{fault} at write {number}: {life.api.writes()}")
            raise
        if writes[0] > 0:
            assert number > 2, "the work writes its claim and its end"
            return
    raise AssertionError("there are more writes than were tried")


def before_the_annotations(life: Life) -> None:
    """Take from all objects what an older version did not note on them."""
    for obj in life.api.objects.values():
        notes = obj["metadata"].get("annotations") or {}
        for name in [name for name in notes if name.startswith("pinnace.io/") and name not in GIVEN]:
            del notes[name]


def a_day_later(life: Life) -> None:
    life.api.clock.set(life.api.clock.now() + timedelta(days=1))


def a_day_earlier(life: Life) -> None:
    life.api.clock.set(life.api.clock.now() - timedelta(days=1))


GIVEN: Final = frozenset({CONTENT, labels.INITIALIZE_REPOSITORY})
"""Annotations that the work begins with."""
CHANGES: Final[dict[str, Callable[[Life], None]]] = {
    "an older version did not note": before_the_annotations,
    "the clock is a day later": a_day_later,
    "the clock is a day earlier": a_day_earlier,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", LIVES)
async def test_a_process_ends_what_another_left_under_other_circumstances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, change: str
) -> None:
    monkeypatch.setattr(RetryDelay, "next_delay", lambda _self: 0.0)
    for number in range(1, MOST_WRITES):
        folder = tmp_path / str(number)
        folder.mkdir()
        life, writes = LIVES[kind](folder), [number]

        def strike(verb: str, *_names: str, life: Life = life, left: list[int] = writes) -> None:
            if verb in ("create", "patch", "delete"):
                left[0] -= 1
                if left[0] == 0:
                    CHANGES[change](life)
                    raise Killed

        life.api.after = strike
        try:
            await brought_to_its_end(life, is_over_or_failed)
        except AssertionError as failure:
            failure.add_note(f"{change}, from write {number}: {life.api.writes()}")
            raise
        if writes[0] > 0:
            return
    raise AssertionError("there are more writes than were tried")


@pytest.mark.parametrize("is_interrupted", [True, False])
async def test_a_restore_is_resumed_on_request_only_if_it_was_interrupted(
    tmp_path: Path, is_interrupted: bool
) -> None:
    life = RunLife(tmp_path, "restores", leads=False)
    obj = life.api.stored("restores", "run")
    notes = {labels.RESUME_REQUESTED: "now", labels.RESUMED: "2"}
    obj["metadata"]["annotations"] = notes | ({labels.INTERRUPTED: "true"} if is_interrupted else {})
    started = {"startTimestamp": "2021-08-11T20:00:00Z", "completionTimestamp": "2021-08-11T21:00:00Z"}
    obj["status"] = {"phase": "Failed", "failureReason": "a reason", "errors": 3, **started}
    obj["spec"] = {"backupName": "b1", "scheduleName": "nightly"}

    await life.begin()()

    found = life.api.stored("restores", "run")
    if is_interrupted:
        assert found["metadata"]["annotations"] == {labels.RESUMED: "3"}
        assert found["status"] == {"phase": "Completed", "startTimestamp": started["startTimestamp"]}
    else:
        assert found["metadata"]["annotations"] == {labels.RESUMED: "2"}
        assert (found["status"]["phase"], found["status"]["failureReason"]) == ("Failed", "a reason")
    assert life.executed == is_interrupted
    assert found["spec"] == {"backupName": "b1", "scheduleName": "nightly"}

"""The DataDownloads of a restore, and the wait until the volume of a claim is taken. (docs/spec: AFT 6.1)"""

from collections.abc import Callable
from typing import Any

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore, RestoreSpec, RestoreUploader
from pinnace.csi.movement.downloads import RestoreMovedData
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.objects import MovedVolume
from pinnace.kube.errors import ServerFault
from pinnace.kube.resources import DATA_DOWNLOADS, PERSISTENT_VOLUME_CLAIMS
from tests.support.clock import LeapingClock
from tests.support.cluster.scripted_cluster import ScriptedCluster

OURS = "velero"
MOVED = MovedVolume(snapshot="k1", source_namespace="shop")


class Scene:
    """A restore of moved data; `acts` is the server's controller, between two looks of the restore."""

    def __init__(self, acts: Callable[["Scene"], object] = lambda _scene: None) -> None:
        clock = LeapingClock()
        clock.on_sleep = lambda: acts(self)
        self.api: ScriptedCluster = ScriptedCluster(clock)
        spec = RestoreSpec(
            existing_volume_data_policy="incremental",
            uploader_config=RestoreUploader(delete_extra_files=True, parallel_files_download=3),
        )
        self.owner = Restore(metadata=ObjectMeta(name="r", namespace=OURS, uid="u1"), spec=spec)
        self.moved = RestoreMovedData(self.api.client, OURS, clock)

    async def start(self, volume: str = "pv") -> str:
        metadata = {"namespace": "shop", "name": "data", "uid": "c1"}
        claim = {"metadata": metadata, "spec": {"volumeName": volume} if volume else {}}
        return await self.moved.start(self.owner, claim, MOVED, "default")

    @property
    def download(self) -> JSONObject:
        [found] = self.api.of(DATA_DOWNLOADS)
        return found

    def change(self, **members: Any) -> None:
        self.api.put({**self.download, **members}, DATA_DOWNLOADS, OURS)


@pytest.mark.parametrize("volume", ["pv", ""], ids=["existing", "new"])
async def test_a_download_says_what_is_done_with_what_is_there(volume: str) -> None:
    scene = Scene(lambda scene: scene.change(status={"phase": "Accepted"}))

    await scene.start(volume)

    spec = scene.download["spec"]
    assert spec["targetVolume"] == {"namespace": "shop", "pvc": "data", "pv": volume}
    assert spec["restoreType"] == ("incremental" if volume else "")
    # Only who knows that the volume is the application's may act.
    assert spec["datamover"] == ("pinnace-in-place" if volume else MOVED.mover)
    assert spec["dataMoverConfig"] == {"DeleteExtraFiles": "true", "ParallelFilesDownload": "3"}


def make_claim(scene: Scene) -> None:
    body = {"metadata": {"name": scene.download["metadata"]["name"]}, "spec": {}}
    scene.api.put(body, PERSISTENT_VOLUME_CLAIMS, OURS)


@pytest.mark.parametrize(
    "acts",
    [make_claim, lambda scene: scene.change(status={"phase": "Completed"})],
    ids=["taken", "done already"],
)
async def test_a_restore_goes_on_once_the_volume_is_taken(acts: Callable[[Scene], object]) -> None:
    looks: list[int] = []

    def act(scene: Scene) -> None:
        looks.append(1)
        if len(looks) == 2:
            scene.api.before = ignore
            acts(scene)

    scene = Scene(act)
    scene.api.before = away
    assert await scene.start() == "dd-u1.c1"
    assert len(looks) == 2


def away(verb: str, _plural: str, _name: str) -> None:
    if verb == "get":
        raise ServerFault(503, reason="ServiceUnavailable", message="the server is away")


def ignore(*_call: str) -> None:
    """All requests are answered."""


@pytest.mark.parametrize(
    ("acts", "said"),
    [
        (
            lambda scene: scene.change(status={"phase": "Failed", "message": "pods use it"}),
            "pods use it",
        ),
        (
            lambda scene: scene.api.remove(DATA_DOWNLOADS, scene.download["metadata"]["name"], OURS),
            "its DataDownload was deleted before the data was restored",
        ),
        (lambda _scene: None, "the server did not take its volume within 5 minutes"),
    ],
    ids=["refused", "deleted", "not taken"],
)
async def test_a_volume_that_is_not_taken_is_an_error(acts: Callable[[Scene], object], said: str) -> None:
    scene = Scene(acts)

    with pytest.raises(MovementError, match=said):
        await scene.start()

    assert [each["spec"].get("cancel") for each in scene.api.of(DATA_DOWNLOADS)] in (
        [[None], []] if "5 minutes" not in said else [[True]]
    )


@pytest.mark.parametrize(
    ("status", "volume", "said"),
    [
        ({"startTimestamp": "2026-01-01T00:00:00Z"}, "pv", "kubectl patch pv pv"),
        ({}, "pv", "the claim shop/data has its volume with the data of before"),
        ({}, "", ""),
    ],
    ids=["begun", "not begun", "new volume"],
)
async def test_a_transfer_that_fails_says_what_its_claim_has(
    status: JSONObject, volume: str, said: str
) -> None:
    scene = Scene(lambda scene: scene.change(status={"phase": "Accepted"}))
    operation = await scene.start(volume)
    scene.change(status={"phase": "Failed", "message": "the store is away", **status})

    progress = await scene.moved.progress(operation, scene.owner)

    assert progress.completed
    assert progress.error.startswith("the store is away")
    assert said in progress.error
    assert said or progress.error == "the store is away"


async def test_a_resumed_restore_takes_the_download_that_it_made_unless_it_is_canceled() -> None:
    scene = Scene()
    operation = await scene.start("")
    scene.owner.metadata.annotations["pinnace.io/resumed"] = "1"

    assert await scene.start("") == operation
    assert len(scene.api.of(DATA_DOWNLOADS)) == 1

    scene.change(spec={**scene.download["spec"], "cancel": True}, status={"phase": "Canceled"})
    assert await scene.start("") == operation
    canceled, made = sorted(scene.api.of(DATA_DOWNLOADS), key=lambda each: "cancel" not in each["spec"])
    assert "cancel" not in made["spec"]
    progress = await scene.moved.progress(operation, scene.owner)
    assert (progress.completed, canceled["status"]["phase"]) == (False, "Canceled")

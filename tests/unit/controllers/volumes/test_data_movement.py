"""The server's part of DataDownloads and DataUploads, against a cluster in memory. (docs/spec: BEY 6.7)"""

from datetime import timedelta
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping
from pinnace.controllers.data_movement import SETTLE_SECONDS
from pinnace.csi.movement.exposing import POD_GONE
from pinnace.csi.movement.objects import FINALIZER, TIMEOUT_SECONDS, why_pod_ended
from pinnace.csi.movement.preparing import PrepareQueue
from pinnace.csi.movement.rebinding import FILLED_BY, FORMER_POLICY
from pinnace.csi.movement.taking import where_it_is
from pinnace.csi.movement.uploads import SOURCE, VOLUME_MODE, VOLUME_SIZE, SourceVolume
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import (
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from tests.unit.controllers.volumes.stage import AGENT, AWAITED, KINDS, NODE, OURS, SHOP, Stage


@pytest.fixture
def stage(tmp_path: Any) -> Stage:
    return Stage(tmp_path)


@pytest.mark.found("V15")
@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_a_download_fills_a_new_volume_and_gives_it_to_the_claim(stage: Stage, policy: str) -> None:
    stage.policy = policy
    stage.add_download()
    await stage.until("Prepared")
    assert stage.obj["status"]["node"] == NODE
    pod = stage.api.peek(PODS, "d", OURS)
    assert pod is not None
    assert pod["spec"]["containers"][0]["image"] == "r/pinnace:1"

    stage.transfer()
    await stage.until_over()

    claim, volume = (
        stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP),
        stage.api.peek(PERSISTENT_VOLUMES, "pv", ""),
    )
    assert claim is not None
    assert volume is not None
    assert claim["spec"]["volumeName"] == "pv"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == policy
    assert volume["metadata"]["labels"] == AWAITED
    assert FORMER_POLICY not in volume["metadata"]["annotations"]
    assert FILLED_BY not in volume["metadata"]["labels"]
    assert stage.temporary() == []


@pytest.mark.found("V15")
async def test_a_filled_volume_is_kept_until_it_is_bound_to_its_claim(stage: Stage) -> None:
    stage.binds = False
    stage.add_download()
    await stage.until("Prepared")
    stage.transfer()
    for _ in range(20):
        await stage.step()

    volume = stage.api.peek(PERSISTENT_VOLUMES, "pv", "")

    assert volume is not None
    assert (volume["status"]["phase"], volume["spec"]["persistentVolumeReclaimPolicy"]) == (
        "Released",
        "Retain",
    )
    assert volume["spec"]["claimRef"]["uid"] == stage.claim["metadata"]["uid"]
    assert FINALIZER in stage.obj["metadata"]["finalizers"], "the operation has not ended"
    stage.binds = True
    await stage.until_over()
    volume = stage.api.peek(PERSISTENT_VOLUMES, "pv", "")
    assert volume is not None
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


@pytest.mark.found("V15")
async def test_a_filled_volume_whose_claim_is_not_bound_in_time_is_kept_and_named(stage: Stage) -> None:
    stage.binds = False
    stage.add_download()
    await stage.until("Prepared")
    stage.transfer()
    for _ in range(20):
        await stage.step()
    stage.clock.turn(timedelta(seconds=SETTLE_SECONDS + 1))

    await stage.until_over()
    stage.cluster_acts()

    assert stage.phase == "Failed"
    assert "the PersistentVolume pv has it" in stage.obj["status"]["message"]
    volume = stage.api.peek(PERSISTENT_VOLUMES, "pv", "")
    assert volume is not None
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert stage.temporary() == []


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
@pytest.mark.found("V15")
async def test_a_volume_whose_claim_was_deleted_after_it_got_it_goes_the_way_of_its_policy(
    stage: Stage, policy: str, stays: bool
) -> None:
    stage.policy, stage.binds = policy, False
    stage.add_download()
    await stage.until("Prepared")
    stage.transfer()
    for _ in range(20):
        await stage.step()
    stage.api.remove(PERSISTENT_VOLUME_CLAIMS, "data", SHOP)

    await stage.until_over()
    stage.cluster_acts()

    assert stage.phase == "Failed"
    assert (stage.api.peek(PERSISTENT_VOLUMES, "pv", "") is not None) is stays


@pytest.mark.found("V15")
async def test_a_claim_in_the_namespace_of_the_server_keeps_its_volume_too(stage: Stage) -> None:
    """It is told from the temporary claim by its name."""
    stage.binds = False
    spec = {**stage.claim["spec"]}
    stage.api.put({"metadata": {"name": "data"}, "spec": spec}, PERSISTENT_VOLUME_CLAIMS, OURS)
    stage.add_download(targetVolume={"namespace": OURS, "pvc": "data", "pv": ""})
    await stage.until("Prepared")
    stage.transfer()
    for _ in range(20):
        await stage.step()
    stage.clock.turn(timedelta(seconds=SETTLE_SECONDS + 1))

    await stage.until_over()
    stage.cluster_acts()

    assert stage.api.peek(PERSISTENT_VOLUMES, "pv", "") is not None


async def test_an_upload_removes_its_snapshot_in_the_end(stage: Stage) -> None:
    stage.add_upload()
    await stage.until("Prepared")
    claim = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
    assert claim is not None
    assert claim["spec"]["dataSource"]["name"] == "d"
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    second = stage.api.peek(KINDS.contents, f"pinnace-{stage.obj['metadata']['uid']}", "")
    assert second is not None
    assert second["spec"]["source"] == {"snapshotHandle": "h"}
    assert second["spec"]["deletionPolicy"] == "Retain"
    policies = []
    stage.api.before = lambda verb, plural, name: (
        policies.append(stage.api.peek(KINDS.contents, name, "")["spec"]["deletionPolicy"])  # type: ignore[index]
        if (verb, plural) == ("delete", KINDS.contents.name)
        else None
    )

    stage.transfer()
    await stage.until_over()

    assert policies == ["Retain", "Delete"]
    assert stage.api.peek(KINDS.snapshots, "snap", SHOP) is None
    assert stage.temporary() == []


@pytest.mark.found("V10")
@pytest.mark.parametrize("reported", [{}, {"restoreSize": 0}], ids=["no size", "a size of nothing"])
@pytest.mark.parametrize("known", [True, False])
async def test_a_claim_is_as_large_as_its_source_where_no_size_is_reported(
    stage: Stage, reported: dict[str, int], known: bool
) -> None:
    """Where the source is unknown too, any size would be a guess that a driver may refuse, or fill up."""
    stage.reported = reported
    stage.add_upload()
    obj = stage.obj
    if known:
        obj["metadata"]["annotations"][VOLUME_SIZE] = "3Gi"
    stage.api.put(obj, DATA_UPLOADS, OURS)

    await stage.until("Prepared" if known else "Failed")

    if known:
        claim = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
        assert claim is not None
        assert claim["spec"]["resources"] == {"requests": {"storage": "3Gi"}}
    else:
        assert "does not report the size of the snapshot" in stage.obj["status"]["message"]


async def test_an_upload_stays_completed_though_what_was_made_for_it_cannot_be_removed_yet(
    stage: Stage,
) -> None:
    """Its data is saved: as a Failed one it could not be restored."""
    stage.add_upload()
    await stage.until("Prepared")
    refused = [Forbidden(403, message="not allowed")]

    def refuse(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("delete", KINDS.contents.name) and refused:
            raise refused[0]

    stage.api.before = refuse
    stage.transfer()
    for _ in range(20):
        await stage.step()
    assert stage.phase == "Completed"
    assert stage.obj["metadata"]["finalizers"] != []
    refused.clear()
    await stage.until_over()

    assert stage.phase == "Completed"
    assert stage.temporary() == []


async def test_a_canceled_download_ends_and_leaves_the_claim_as_it_is(stage: Stage) -> None:
    stage.add_download()
    await stage.until("Accepted")
    await stage.step()
    stage.cancel()

    await stage.until_over()

    assert stage.phase == "Canceled"
    assert stage.temporary() == []


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_moved_data_is_written_into_the_volume_of_a_claim_that_exists(
    stage: Stage, policy: str
) -> None:
    stage.policy = policy
    stage.add_download_in_place()
    await stage.until("Prepared")
    claim, volume, temporary = (
        stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP),
        stage.api.peek(PERSISTENT_VOLUMES, "pv", ""),
        stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS),
    )
    assert claim is not None
    assert volume is not None
    assert temporary is not None
    assert claim["status"]["phase"] == "Lost", "no pod can mount it now"
    assert volume["spec"]["claimRef"]["uid"] == temporary["metadata"]["uid"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert temporary["spec"]["storageClassName"] == "", "it is bound to this volume and to no other"

    stage.transfer()
    await stage.until_over()

    claim, volume = (
        stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP),
        stage.api.peek(PERSISTENT_VOLUMES, "pv", ""),
    )
    assert stage.phase == "Completed"
    assert claim is not None
    assert volume is not None
    assert claim["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == policy
    assert FILLED_BY not in volume["metadata"]["labels"]
    assert stage.temporary() == []


@pytest.mark.parametrize("when", ["before", "between"])
async def test_a_volume_that_a_pod_uses_is_left_to_it(stage: Stage, when: str) -> None:
    """A pod that came between the look at the pods and the taking of the volume may have mounted it."""
    stage.add_download_in_place()
    if when == "before":
        stage.add_user(phase="Running")
    else:

        def come(verb: str, plural: str, _name: str) -> None:
            if (verb, plural) == ("patch", "persistentvolumes"):
                stage.add_user(phase="Pending")

        stage.api.after = come

    await stage.until_over()

    assert stage.phase == "Failed"
    assert stage.obj["status"]["message"] == (
        "pods use it: web. Stop them, and restore again: kubectl -n shop delete pod/web"
    )
    claim = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP)
    volume = stage.api.peek(PERSISTENT_VOLUMES, "pv", "")
    assert claim is not None
    assert volume is not None
    assert claim["status"]["phase"] == "Bound"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert FILLED_BY not in (volume["metadata"].get("labels") or {})


async def test_a_volume_with_a_part_of_the_data_waits_for_the_next_restore(stage: Stage) -> None:
    stage.add_download_in_place()
    await stage.until("Prepared")
    stage.transfer("Failed")
    await stage.until_over()
    volume = stage.api.peek(PERSISTENT_VOLUMES, "pv", "")
    assert volume is not None
    assert (volume["status"]["phase"], volume["spec"]["persistentVolumeReclaimPolicy"]) == (
        "Released",
        "Retain",
    )
    assert "kubectl patch pv pv" in where_it_is(stage.obj)

    stage.api.remove(DATA_DOWNLOADS, "d", OURS)
    stage.add_download_for_volume()
    await stage.until("Prepared")
    stage.transfer()
    await stage.until_over()

    claim, volume = (
        stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP),
        stage.api.peek(PERSISTENT_VOLUMES, "pv", ""),
    )
    assert claim is not None
    assert volume is not None
    assert claim["status"]["phase"] == "Bound"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete", "the policy of before both"


async def test_a_taken_volume_whose_claim_is_deleted_keeps_its_data(stage: Stage) -> None:
    stage.add_download_in_place()
    await stage.until("Accepted")
    stage.api.remove(PERSISTENT_VOLUME_CLAIMS, "data", SHOP)

    await stage.until_over()

    volume = stage.api.peek(PERSISTENT_VOLUMES, "pv", "")
    assert stage.phase == "Failed"
    assert volume is not None
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert FORMER_POLICY not in volume["metadata"]["annotations"]
    assert stage.storage == "there"
    assert stage.temporary() == []


@pytest.mark.parametrize(
    ("mover", "volume", "said"),
    [
        ("velero-block", "pv", "delete the claim and restore again"),
        ("velero", "other", "the volume other of the claim is gone"),
    ],
    ids=["image for a file system", "other volume"],
)
async def test_a_volume_that_does_not_fit_is_not_taken(
    stage: Stage, mover: str, volume: str, said: str
) -> None:
    stage.add_download_in_place()
    obj = stage.obj
    obj["spec"]["datamover"], obj["spec"]["targetVolume"]["pv"] = mover, volume
    stage.api.put(obj, DATA_DOWNLOADS, OURS)

    await stage.until_over()

    assert stage.phase == "Failed"
    assert said in stage.obj["status"]["message"]
    assert ("patch", "persistentvolumes") not in {call[:2] for call in stage.api.calls}


async def test_what_no_agent_takes_up_fails_in_the_end_and_says_why(stage: Stage) -> None:
    stage.add_agents()
    stage.add_download()
    await stage.until("Prepared")
    stage.api.remove(PODS, "agent", OURS)
    await stage.step()
    reason = f"no node agent runs on the node {NODE}: the DaemonSet velero/node-agent has no pod there"
    assert stage.obj["status"]["message"].startswith(reason)
    stage.clock.turn(timedelta(seconds=TIMEOUT_SECONDS + 1))

    await stage.until_over()

    assert stage.phase == "Failed"
    told = f"no node agent took it up within 30 minutes: {reason}"
    assert stage.obj["status"]["message"].startswith(told)
    assert stage.temporary() == []


async def test_a_busy_agent_is_waited_for_and_so_is_one_that_restarts(stage: Stage) -> None:
    stage.add_agents()
    stage.add_upload()
    await stage.until("Prepared")
    stage.clock.turn(timedelta(seconds=TIMEOUT_SECONDS + 1))
    await stage.step()
    stage.set_agent(ready=False)
    await stage.step()
    assert "is not ready" in stage.obj["status"]["message"]
    stage.set_agent(ready=True)
    await stage.step()
    assert "message" not in stage.obj["status"]
    stage.clock.turn(timedelta(seconds=TIMEOUT_SECONDS + 1))
    stage.set_agent(ready=False)

    await stage.step()

    assert stage.phase == "Prepared"


async def test_the_pod_is_kept_to_nodes_with_an_agent(stage: Stage) -> None:
    stage.add_agents()
    stage.add_upload()
    await stage.until("Prepared")

    pod = stage.api.peek(PODS, "d", OURS)

    assert pod is not None
    [term] = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {"labelSelector": {"matchLabels": AGENT}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize(("agent", "minutes"), [("gone", 6), ("deaf", 61)])
async def test_a_cancel_that_no_agent_obeys_is_forced(stage: Stage, agent: str, minutes: int) -> None:
    stage.add_agents()
    stage.add_upload()
    await stage.until("Prepared")
    stage.change(phase="InProgress", message="it was canceled, as its Backup b failed: why")
    stage.cancel()
    if agent == "gone":
        stage.api.remove(PODS, "agent", OURS)
    await stage.step()
    assert stage.phase == "InProgress"
    stage.clock.turn(timedelta(minutes=minutes))

    await stage.until_over()

    assert stage.phase == "Canceled"
    assert stage.obj["status"]["message"].startswith("it was canceled, as its Backup b failed: why; ")
    assert stage.temporary() == []


async def test_a_transfer_whose_agent_is_gone_for_good_fails(stage: Stage) -> None:
    stage.add_agents()
    stage.add_download()
    await stage.until("Prepared")
    stage.change(phase="InProgress")
    stage.api.remove(PODS, "agent", OURS)
    await stage.step()
    stage.clock.turn(timedelta(seconds=TIMEOUT_SECONDS + 1))

    await stage.until_over()

    assert stage.phase == "Failed"
    assert stage.obj["status"]["message"].startswith("its transfer was interrupted: no node agent runs")
    assert stage.temporary() == []


async def test_an_upload_that_is_canceled_before_it_began_takes_its_snapshot_with_it(stage: Stage) -> None:
    stage.add_upload()
    obj = stage.obj
    obj["spec"]["cancel"] = True
    obj["metadata"]["finalizers"] = [FINALIZER]  # as `new_upload` makes it
    stage.api.put(obj, DATA_UPLOADS, OURS)

    await stage.until_over()

    assert stage.phase == "Canceled"
    assert stage.api.peek(KINDS.snapshots, "snap", SHOP) is None
    assert stage.temporary() == []


async def test_a_lost_node_fails_the_transfer(stage: Stage) -> None:
    stage.add_download()
    await stage.until("Prepared")
    stage.change(phase="InProgress")
    stage.api.remove(PODS, "d", OURS)

    await stage.until_over()

    assert (stage.phase, stage.obj["status"]["message"]) == ("Failed", POD_GONE)


async def test_a_claim_that_was_deleted_fails_the_download(stage: Stage) -> None:
    stage.add_download()
    await stage.until("Prepared")
    stage.api.remove(PERSISTENT_VOLUME_CLAIMS, "data", SHOP)
    stage.transfer()

    await stage.until_over()

    assert stage.phase == "Failed"
    assert stage.obj["status"]["message"].startswith("the claim shop/data was deleted")
    assert stage.temporary() == []


async def test_the_first_pod_of_a_claim_decides_where_its_volume_is_made(stage: Stage) -> None:
    stage.class_of = {"metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer"}
    stage.api.put(stage.class_of, STORAGE_CLASSES, "")
    stage.add_download()
    await stage.until("Accepted")
    await stage.step()
    assert stage.temporary() == []
    claim = stage.claim
    claim["metadata"]["annotations"] = {labels.SELECTED_NODE: "node-7"}
    stage.api.put(claim, PERSISTENT_VOLUME_CLAIMS, SHOP)

    await stage.step()

    pod = stage.api.peek(PODS, "d", OURS)
    assert pod is not None
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node-7"]


async def test_other_movers_are_left_alone(stage: Stage) -> None:
    stage.add_download(datamover="other")

    await stage.step()

    assert stage.api.writes() == []
    assert FINALIZER not in (stage.obj["metadata"].get("finalizers") or [])


@pytest.mark.found("G3")
async def test_the_new_name_of_the_file_system_mover_is_ours(stage: Stage) -> None:
    stage.add_download(datamover="velero-fs")

    await stage.step()

    assert FINALIZER in stage.obj["metadata"]["finalizers"]


CONFIG = {
    "loadAffinity": [{"nodeSelector": {"matchLabels": {"pool": "spare"}}}],
    "backupPVC": {"fast": {"storageClass": "shallow", "readOnly": True, "annotations": {"a": "b"}}},
    "priorityClassName": "low",
    "podLabels": {"team": "storage", labels.EXCLUDE_FROM_BACKUP: "false"},
    "podAnnotations": {"c": "d"},
    "restorePVC": {"ignoreDelayBinding": True},
}


def configure(
    stage: Stage, argument: str = "--node-agent-configmap=settings", config: JSONObject | None = None
) -> None:
    stage.add_settings(config or CONFIG)
    stage.agent_arguments = argument.split()
    stage.add_agents()
    stage.api.put({"metadata": {"name": "shallow"}}, STORAGE_CLASSES, "")


@pytest.mark.parametrize("argument", ["--node-agent-configmap=settings", "--node-agent-configmap settings"])
async def test_the_settings_of_node_agents_shape_claim_and_pod_of_a_backup(
    stage: Stage, argument: str
) -> None:
    configure(stage, argument)
    stage.add_upload()
    await stage.until("Prepared")

    claim = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
    pod = stage.api.peek(PODS, "d", OURS)

    assert claim is not None
    assert pod is not None
    assert (claim["spec"]["storageClassName"], claim["spec"]["accessModes"]) == ("shallow", ["ReadOnlyMany"])
    assert claim["metadata"]["annotations"] == {"a": "b"}
    spec = pod["spec"]
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "d", "readOnly": True}
    assert spec["containers"][0]["volumeMounts"][0]["readOnly"] is True
    assert spec["priorityClassName"] == "low"
    assert pod["metadata"]["annotations"] == {"c": "d"}
    assert pod["metadata"]["labels"] == {
        "team": "storage",
        labels.EXCLUDE_FROM_BACKUP: "true",
        "velero.io/data-upload": "d",
        "velero.io/exposer-pod-group": "snapshot-exposer",
    }
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "pool", "operator": "In", "values": ["spare"]}
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


async def pod_of_upload(stage: Stage, volume: JSONObject | None = None) -> JSONObject:
    """The pod that is made for an upload of a volume."""
    stage.add_upload()
    obj = stage.obj
    if volume is not None:
        obj["metadata"]["annotations"][SOURCE] = SourceVolume.of(volume).encoded()
    stage.api.put(obj, DATA_UPLOADS, OURS)
    await stage.until("Prepared")
    pod = stage.api.peek(PODS, "d", OURS)
    assert pod is not None
    return pod


def node_terms(pod: JSONObject) -> list[JSONObject]:
    affinity = mapping(pod, "spec", "affinity", "nodeAffinity")
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or [])


@pytest.mark.found("E-F5")
async def test_the_class_of_the_claim_that_the_pod_mounts_decides_where_it_runs(stage: Stage) -> None:
    affinity = [
        {"nodeSelector": {"matchLabels": {"pool": "of-fast"}}, "storageClass": "fast"},
        {"nodeSelector": {"matchLabels": {"pool": "of-shallow"}}, "storageClass": "shallow"},
    ]
    config = {"loadAffinity": affinity, "backupPVC": {"fast": {"storageClass": "shallow"}}}
    configure(stage, config=config)

    pod = await pod_of_upload(stage)

    assert node_terms(pod) == [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["of-shallow"]}]}
    ]


@pytest.mark.found("E-F6")
async def test_the_pod_of_a_download_is_found_as_that_of_velero(stage: Stage) -> None:
    stage.add_download()
    await stage.until("Prepared")

    pod = stage.api.peek(PODS, "d", OURS)

    assert pod is not None
    assert pod["metadata"]["labels"] == {
        labels.EXCLUDE_FROM_BACKUP: "true",
        "velero.io/data-download": "d",
        "velero.io/exposer-pod-group": "generic-restore-exposer",
    }


def on_nodes(*names: str) -> JSONObject:
    return {"matchExpressions": [{"key": "topology.disk/node", "operator": "In", "values": [*names]}]}


SOURCE_VOLUME = {
    "metadata": {"name": "pv-1"},
    "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [on_nodes("a"), on_nodes("b")]}}},
}


@pytest.mark.found("S7")
@pytest.mark.parametrize(
    ("mode", "volume", "spare", "terms"),
    [
        ("WaitForFirstConsumer", SOURCE_VOLUME, False, [on_nodes("a"), on_nodes("b")]),
        (
            "WaitForFirstConsumer",
            SOURCE_VOLUME,
            True,
            [
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["spare"]}, *each]}
                for each in (on_nodes("a")["matchExpressions"], on_nodes("b")["matchExpressions"])
            ],
        ),
        ("WaitForFirstConsumer", {"metadata": {"name": "pv-1"}, "spec": {}}, False, []),
        ("WaitForFirstConsumer", None, False, []),
        ("Immediate", SOURCE_VOLUME, False, []),
    ],
    ids=["affinity", "affinity and settings", "no affinity", "of an earlier version", "made anywhere"],
)
async def test_a_volume_that_is_made_where_its_pod_is_put_is_made_where_its_source_is(
    stage: Stage, mode: str, volume: JSONObject | None, spare: bool, terms: list[JSONObject]
) -> None:
    stage.class_of["volumeBindingMode"] = mode
    stage.api.put(stage.class_of, STORAGE_CLASSES, "")
    if spare:
        configure(stage, config={"loadAffinity": CONFIG["loadAffinity"]})

    pod = await pod_of_upload(stage, volume)

    assert node_terms(pod) == terms


FAST_CLONE = {"csi.vsphere.volume/fast-provisioning": "true"}


@pytest.mark.found("S8")
@pytest.mark.parametrize("may_look", [True, False])
async def test_the_clone_of_a_volume_that_its_source_keeps_from_a_node_goes_elsewhere(
    stage: Stage, may_look: bool
) -> None:
    configure(stage, config={"backupPVC": {"fast": {"annotations": {**FAST_CLONE, "a": "b"}}}})
    for node, volume in (("node-2", "pv-1"), ("node-1", "pv-1"), ("node-3", "another")):
        spec = {"nodeName": node, "source": {"persistentVolumeName": volume}}
        stage.api.put({"metadata": {"name": f"of-{node}"}, "spec": spec}, VOLUME_ATTACHMENTS, "")

    def refuse(verb: str, resource: str, _name: str) -> None:
        if (verb, resource) == ("list", "volumeattachments"):
            raise Forbidden(403, message="no")

    if not may_look:
        stage.api.before = refuse

    pod = await pod_of_upload(stage, SOURCE_VOLUME)

    claim = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
    assert claim is not None
    if may_look:
        elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-1", "node-2"]}
        assert node_terms(pod) == [{"matchExpressions": [elsewhere]}]
        assert claim["metadata"]["annotations"] == {**FAST_CLONE, "a": "b"}
    else:
        assert node_terms(pod) == []
        assert claim["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.found("S10")
@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Unknown", "reason": "NodeLost"}, "is in the phase Unknown: NodeLost"),
        ({"phase": "Failed", "message": "evicted"}, "ended: evicted"),
        *(
            (
                {"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": "why"}}}]},
                f"cannot start: {reason}: why",
            )
            for reason in (
                "ImagePullBackOff",
                "ErrImageNeverPull",
                "InvalidImageName",
                "CreateContainerConfigError",
            )
        ),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
async def test_a_pod_that_cannot_hold_its_volume_ends_the_transfer_at_once_with_its_reason(
    stage: Stage, status: JSONObject, told: str, begun: bool
) -> None:
    stage.add_upload()
    if begun:
        await stage.until("Prepared")
        stage.change(phase="InProgress")
    else:
        while stage.api.peek(PODS, "d", OURS) is None:
            await stage.step()
    pod = stage.api.peek(PODS, "d", OURS)
    assert pod is not None
    pod["status"] = {"phase": "Pending", **status}
    stage.api.put(pod, PODS, OURS)
    if not begun:  # not yet seen
        obj = stage.obj
        obj["status"].pop("node", None)
        obj["status"]["phase"] = "Accepted"
        stage.api.put(obj, DATA_UPLOADS, OURS)

    await stage.until_over()

    assert stage.phase == "Failed"
    expected = f"the pod velero/d, which is to mount the volume, {told}"
    assert stage.obj["status"]["message"] == expected
    assert stage.temporary() == []


@pytest.mark.found("S10")
@pytest.mark.parametrize("reason", ["ContainerCreating", "ErrImagePull"])
def test_a_pod_that_may_start_yet_is_waited_for(reason: str) -> None:
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}
    assert why_pod_ended({"status": status}) == ""


@pytest.mark.found("V21")
async def test_a_snapshot_whose_storage_class_is_gone_is_not_waited_for(stage: Stage) -> None:
    stage.api.remove(STORAGE_CLASSES, "fast", "")
    stage.add_upload()

    await stage.until_over()

    assert stage.phase == "Failed"
    assert stage.obj["status"]["message"].startswith(
        "the storage class fast of the snapshot's temporary volume does not exist"
    )


@pytest.mark.found("S6")
async def test_the_content_of_a_moved_snapshot_is_left_to_the_sidecar_of_its_node(stage: Stage) -> None:
    stage.add_upload()
    content = stage.api.peek(KINDS.contents, "content", "")
    assert content is not None
    content["metadata"]["labels"] = {"snapshot.storage.kubernetes.io/managed-by": "worker", "other": "x"}
    stage.api.put(content, KINDS.contents, "")
    await stage.until("Prepared")

    made = [each for each in stage.api.of(KINDS.contents) if each["metadata"]["name"] != "content"]

    (second,) = made
    assert second["metadata"]["labels"] == {
        "pinnace.io/data-upload": stage.obj["metadata"]["uid"],
        "snapshot.storage.kubernetes.io/managed-by": "worker",
    }


async def test_a_restore_is_not_shaped_by_the_settings_of_backups_and_need_not_wait_for_a_pod(
    stage: Stage,
) -> None:
    configure(stage)
    stage.class_of["volumeBindingMode"] = "WaitForFirstConsumer"
    stage.api.put(stage.class_of, STORAGE_CLASSES, "")
    stage.add_download()
    await stage.until("Accepted")

    await stage.step()

    claim = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
    assert claim is not None
    assert (claim["spec"]["storageClassName"], claim["spec"]["accessModes"]) == ("fast", ["ReadWriteOnce"])


async def test_settings_that_cannot_be_read_fail_the_transfer(stage: Stage) -> None:
    stage.agent_arguments = ["--node-agent-configmap=gone"]
    stage.add_agents()
    stage.add_upload()

    await stage.until_over()

    assert stage.phase == "Failed"
    told = "the ConfigMap velero/gone that --node-agent-configmap names cannot be read: "
    assert stage.obj["status"]["message"].startswith(told)


@pytest.mark.parametrize("what", ["upload", "download"])
async def test_a_volume_in_block_mode_is_attached_as_a_device(stage: Stage, what: str) -> None:
    if what == "upload":
        stage.add_upload()
        obj = stage.obj
        obj["metadata"]["annotations"][VOLUME_MODE] = "Block"
        stage.api.put(obj, DATA_UPLOADS, OURS)
    else:
        stage.claim["spec"]["volumeMode"] = "Block"
        stage.api.put(stage.claim, PERSISTENT_VOLUME_CLAIMS, SHOP)
        stage.add_download()
    await stage.until("Prepared")

    claim = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
    pod = stage.api.peek(PODS, "d", OURS)

    assert claim is not None
    assert pod is not None
    assert claim["spec"]["volumeMode"] == "Block"
    [container] = pod["spec"]["containers"]
    assert container["volumeDevices"] == [{"name": "data", "devicePath": "/dev/volume"}]
    assert "volumeMounts" not in container


@pytest.mark.parametrize(
    ("length", "other", "accepted"),
    [
        (1, "Accepted", False),
        (1, "Prepared", False),
        (1, "InProgress", True),
        (2, "Prepared", True),
        (0, "Prepared", True),
    ],
    ids=["accepted", "prepared", "transferred", "longer", "no limit"],
)
async def test_only_as_many_volumes_are_prepared_as_the_settings_say(
    stage: Stage, length: int, other: str, accepted: bool
) -> None:
    stage.add_settings({"loadConcurrency": {"prepareQueueLength": length}})
    stage.add_download()
    upload = {"metadata": {"name": "other"}, "spec": {}, "status": {"phase": other}}
    stage.api.put(upload, DATA_UPLOADS, OURS)

    await stage.step()
    assert (stage.phase == "Accepted") is accepted
    stage.api.remove(DATA_UPLOADS, "other", OURS)
    await stage.until("Prepared")


async def test_an_accepted_volume_counts_before_the_watch_shows_it() -> None:
    async def one() -> int:
        return 1

    async def store() -> None:
        return

    objects = [{"metadata": {"uid": uid}, "spec": {}, "status": {}} for uid in ("a", "b")]
    queue = PrepareQueue(lambda: objects, one)

    assert [await queue.accept(obj, store) for obj in objects] == [True, False]
    objects[0]["status"] = {"phase": "InProgress"}
    assert await queue.accept(objects[1], store)


IMAGE = {"datamover": "velero-block"}


def second(stage: Stage) -> JSONObject:
    """The only volume, which took the place of the one that the image was written to."""
    (volume,) = stage.api.of(PERSISTENT_VOLUMES)
    assert volume["metadata"]["name"] != "pv"
    return volume


async def until_given(stage: Stage) -> None:
    """Until the image is written, and its volume has been given to the claim."""
    await stage.until("Prepared")
    stage.transfer()
    for _ in range(20):
        await stage.step()


@pytest.mark.spec("AFT-147")
@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_an_image_of_a_file_system_is_written_to_a_device_that_the_claim_gets_as_a_file_system(
    stage: Stage, policy: str
) -> None:
    stage.policy = policy
    target = {"namespace": SHOP, "pvc": "data", "pv": "", "fsType": "xfs"}
    stage.add_download(**IMAGE, targetVolume=target)
    await stage.until("Prepared")
    temporary = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
    pod = stage.api.peek(PODS, "d", OURS)
    assert temporary is not None
    assert pod is not None
    assert temporary["spec"]["volumeMode"] == "Block"
    assert pod["spec"]["containers"][0]["volumeDevices"]

    stage.transfer()
    await stage.until_over()

    claim, volume = stage.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP), second(stage)
    assert stage.phase == "Completed"
    assert claim is not None
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"] == {
        "persistentVolumeReclaimPolicy": policy,
        "volumeMode": "Filesystem",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": SHOP,
            "name": "data",
            "uid": claim["metadata"]["uid"],
        },
        "csi": {
            "driver": "d",
            "volumeHandle": "storage",
            "volumeAttributes": {"pool": "p"},
            "fsType": "xfs",
        },
    }
    assert volume["metadata"]["labels"] == AWAITED
    # Without it no provisioner deletes the storage when the volume is released.
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "d"}
    assert stage.storage == "there"
    assert stage.temporary() == []


@pytest.mark.spec("AFT-147")
async def test_an_image_for_a_claim_in_block_mode_needs_no_other_volume(stage: Stage) -> None:
    stage.claim["spec"]["volumeMode"] = "Block"
    stage.api.put(stage.claim, PERSISTENT_VOLUME_CLAIMS, SHOP)
    stage.add_download(**IMAGE)
    await stage.until("Prepared")
    stage.transfer()

    await stage.until_over()

    (volume,) = stage.api.of(PERSISTENT_VOLUMES)
    assert (volume["metadata"]["name"], volume["spec"]["volumeMode"]) == ("pv", "Block")
    assert stage.phase == "Completed"


@pytest.mark.spec("AFT-147")
async def test_the_other_volume_is_made_once_the_first_is_detached(stage: Stage) -> None:
    stage.add_download(**IMAGE)
    attachment = {"metadata": {"name": "a"}, "spec": {"source": {"persistentVolumeName": "pv"}}}
    stage.api.put(attachment, VOLUME_ATTACHMENTS, "")
    await until_given(stage)
    (volume,) = stage.api.of(PERSISTENT_VOLUMES)
    assert volume["metadata"]["name"] == "pv"
    assert (volume["status"]["phase"], volume["spec"]["persistentVolumeReclaimPolicy"]) == (
        "Released",
        "Retain",
    )

    stage.api.remove(VOLUME_ATTACHMENTS, "a", "")
    await stage.until_over()

    assert second(stage)["status"]["phase"] == "Bound"


@pytest.mark.spec("AFT-147")
async def test_the_first_volume_is_deleted_without_its_storage_though_its_policy_was_changed(
    stage: Stage,
) -> None:
    """The provisioner looks again before the object is deleted."""
    stage.add_download(**IMAGE)
    await stage.until("Prepared")
    stage.transfer()
    while len(stage.api.of(PERSISTENT_VOLUMES)) < 2:
        await stage.step()
    first = stage.api.peek(PERSISTENT_VOLUMES, "pv", "")
    assert first is not None
    first["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    stage.api.put(first, PERSISTENT_VOLUMES, "")
    former = len(stage.api.writes())

    await stage.until_over()

    writes = [call for call in stage.api.writes()[former:] if call[1:3] == ("persistentvolumes", "pv")]
    assert [call[0] for call in writes] == ["patch", "delete"]
    assert stage.storage == "there"


@pytest.mark.spec("AFT-147")
@pytest.mark.parametrize(("policy", "storage"), [("Delete", "deleted"), ("Retain", "there")])
async def test_the_other_volume_goes_the_way_of_its_policy_when_its_claim_is_deleted(
    stage: Stage, policy: str, storage: str
) -> None:
    stage.policy, stage.binds = policy, False
    stage.add_download(**IMAGE)
    await until_given(stage)
    second(stage)
    stage.api.remove(PERSISTENT_VOLUME_CLAIMS, "data", SHOP)

    await stage.until_over()
    stage.cluster_acts()

    assert stage.phase == "Failed"
    assert stage.storage == storage


@pytest.mark.spec("AFT-147")
async def test_a_download_that_ends_between_both_volumes_leaves_the_one_of_the_claim(stage: Stage) -> None:
    stage.binds = False
    stage.add_download(**IMAGE)
    await stage.until("Prepared")
    stage.transfer()
    while len(stage.api.of(PERSISTENT_VOLUMES)) < 2:
        await stage.step()
    stage.clock.turn(timedelta(seconds=SETTLE_SECONDS + 1))
    stage.change(phase="Failed")

    await stage.until_over()
    stage.cluster_acts()

    volume = second(stage)
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert stage.storage == "there"

"""A restore does what its preview says, and the preview itself writes nothing."""

import asyncio
import copy
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.meta import ObjectMeta, ObjectReference
from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from pinnace.kube.errors import Forbidden, Invalid
from pinnace.restore.collaborators import DataForClaim
from pinnace.restore.request import WORKERS
from pinnace.runs.activity import Activity
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.restore.preview.foreseeing import Foresee, foreseer
from tests.unit.restore.world import (
    Harness,
    claim,
    configmap,
    deployment,
    obj,
    outcome_of,
    pod,
    volume,
)


@pytest.fixture
def foresee(harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foresee:
    return foreseer(harness, tmp_path, monkeypatch)


READY = ("Established", "NamesAccepted")


def definition(name: str) -> JSONObject:
    plural, _, group = name.partition(".")
    return obj(
        "CustomResourceDefinition",
        name,
        api_version="apiextensions.k8s.io/v1",
        spec={
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize(), "singular": plural},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    )


async def test_objects_namespaces_and_definitions_that_would_be_created(
    harness: Harness, foresee: Foresee
) -> None:
    harness.world.put(obj("Namespace", "ns-1"))
    harness.world.put(configmap("same", data={"a": "1"}))
    harness.world.put(configmap("other", data={"a": "2"}))
    before = copy.deepcopy(harness.world.objects)
    boat = obj("Boats", "dinghy", "ns-2", api_version="sea.io/v1")

    preview = await foresee(
        configmap("same", data={"a": "1"}),
        configmap("other", data={"a": "1"}),
        configmap("new"),
        configmap("elsewhere", "ns-2"),
        definition("boats.sea.io"),
        files={"resources/boats.sea.io/namespaces/ns-2/dinghy.json": orjson.dumps(boat)},
    )

    assert dict(preview.outcomes.counts) == {
        Outcome.UNCHANGED: 1,
        Outcome.DIFFERENT: 1,
        Outcome.CREATED: 5,
    }
    assert preview.namespaces == ["ns-2"]
    assert preview.definitions == ["boats.sea.io"]
    assert preview.results.errors.count == 0
    assert harness.world.objects == before
    assert harness.world.writes() == []


async def test_existing_namespaces_and_definitions_that_are_changed_are_not_made(
    harness: Harness, foresee: Foresee
) -> None:
    harness.world.put(obj("Namespace", "ns-1", labels={"team": "a"}))
    existing = definition("boats.sea.io")
    existing["status"] = {"conditions": [{"type": each, "status": "True"} for each in READY]}
    harness.world.put(existing)
    harness.world.put(configmap("same", data={"a": "1"}))
    changed = definition("boats.sea.io")
    changed["spec"]["names"]["shortNames"] = ["bt"]

    preview = await foresee(
        obj("Namespace", "ns-1", labels={"team": "b"}),
        changed,
        configmap("same", data={"a": "1"}),
        existing_resource_policy="update",
    )

    assert preview.namespaces == preview.definitions == []
    definitions = "apiextensions.k8s.io/v1/CustomResourceDefinition"
    assert outcome_of(preview.outcomes, definitions, "boats.sea.io") == Outcome.UPDATED
    assert outcome_of(preview.outcomes, "v1/ConfigMap", "ns-1/same") == Outcome.UNCHANGED


@pytest.mark.found("R10")
async def test_of_unchanged_objects_the_server_is_asked_nothing_but_lists(
    harness: Harness, foresee: Foresee
) -> None:
    """Each would get the labels of the restore: thousands of questions whose answer is known."""
    items = [configmap(f"c{number}", data={"a": "1"}) for number in range(50)]
    accounts = [obj("ServiceAccount", f"a{number}", "ns-1", secrets=[{"name": "s"}]) for number in range(5)]
    for item in (obj("Namespace", "ns-1"), *items, *accounts):
        harness.world.put(item)

    preview = await foresee(*items, *accounts, existing_resource_policy="update")

    assert dict(preview.outcomes.counts) == {Outcome.UNCHANGED: 55}
    assert [call for call in harness.world.calls if call[0] == "simulate"] == []
    assert len(harness.world.calls) < 20

    asked = await foresee(*items, existing_resource_policy="update", ask_server=True)

    assert dict(asked.outcomes.counts) == {Outcome.UNCHANGED: 50}
    assert len([call for call in harness.world.calls if call[0] == "simulate"]) == 50


@pytest.mark.found("row 99")
async def test_a_display_has_its_turns_while_nothing_is_waited_for(
    harness: Harness, foresee: Foresee
) -> None:
    items = [configmap(f"c{number}", data={"a": "1"}) for number in range(200)]
    for item in (obj("Namespace", "ns-1"), *items):
        harness.world.put(item)
    activity = Activity()
    seen: set[int] = set()

    async def look() -> None:
        while True:
            seen.update(reading.done for reading in activity.kinds.values())
            await asyncio.sleep(0)

    display = asyncio.create_task(look())
    await foresee(*items, activity=activity)
    display.cancel()

    assert max(after - before for before, after in pairwise(sorted(seen))) <= WORKERS, "Ctrl-C waits as long"


UPLOAD: Final = {
    "kind": "DataUpload",
    "spec": {"sourcePVC": "moved", "sourceNamespace": "ns-1"},
    "status": {"phase": "Completed", "snapshotID": "k2"},
}
MOVED_FILES: Final = {"resources/datauploads.velero.io/namespaces/velero/du.json": orjson.dumps(UPLOAD)}
MOVED_CLAIM: Final = {
    "spec": {
        "operationID": "du-1.2",
        "resourceIdentifier": {
            "Group": "",
            "Resource": "persistentvolumeclaims",
            "Namespace": "ns-1",
            "Name": "moved",
        },
        "postOperationItems": [
            {"Group": "velero.io", "Resource": "datauploads", "Namespace": "velero", "Name": "du"}
        ],
    }
}
"""The operation that moved the data of a claim, and its DataUpload in the tarball."""


@pytest.mark.parametrize("by_server", [True, False])
async def test_data_that_node_agents_restore_is_foreseen_only_with_a_server(
    harness: Harness, foresee: Foresee, by_server: bool
) -> None:
    saved = PodVolumeBackup(
        spec=PodVolumeBackupSpec(
            pod=ObjectReference(namespace="ns-1", name="db"), volume="data", uploader_type="kopia"
        ),
        status=PodVolumeBackupStatus(snapshot_id="k1"),
    )
    harness.request_fields = {"pod_volume_backups": [saved], "item_operations": [MOVED_CLAIM]}

    preview = await foresee(
        pod("db", spec={"volumes": [{"name": "data", "emptyDir": {}}]}),
        claim("moved"),
        files=MOVED_FILES,
        by_server=by_server,
    )

    noted = [(note.volume, note.source) for note in preview.notes.volumes]
    if by_server:
        assert noted == [
            ("ns-1/moved", "snapshot k2, moved into the location"),
            ("ns-1/db/data", "kopia snapshot k1"),
        ]
    else:
        assert noted == []
    assert preview.results.errors.count == (0 if by_server else 2)
    # The record of moved data is not missed where the data is restored.
    refused = [text for texts in preview.results.warnings.namespaces.values() for text in texts]
    assert any("datauploads.velero.io" in text for text in refused) is not by_server


@pytest.mark.spec("AFT-151")
@pytest.mark.parametrize("is_in_use", [False, True], ids=["free", "in use"])
async def test_data_for_a_claim_that_exists_is_foreseen_and_refused_as_in_the_restore(
    harness: Harness, foresee: Foresee, is_in_use: bool
) -> None:
    saved = PodVolumeBackup(
        metadata=ObjectMeta(annotations={"velero.io/pvc-name": "kept"}),
        spec=PodVolumeBackupSpec(
            pod=ObjectReference(namespace="ns-1", name="db"), volume="data", uploader_type="kopia"
        ),
        status=PodVolumeBackupStatus(snapshot_id="k1"),
    )
    saved.status.progress.total_bytes = 77
    harness.request_fields = {"pod_volume_backups": [saved]}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "kept"}}]
    harness.world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-1"}})
    harness.world.put({**claim("kept"), "status": {"phase": "Bound"}})
    if is_in_use:
        harness.world.put({**pod("web", spec={"volumes": volumes}), "status": {"phase": "Running"}})

    preview = await foresee(
        pod("db", spec={"volumes": volumes}), claim("kept"), existing_volume_data_policy="incremental"
    )

    errors = [str(notice) for _, notice in preview.results.errors.notices()]
    if is_in_use:
        assert preview.notes.volumes == []
        assert len(errors) == 1
        assert "claim kept: pods use it: web." in errors[0]
    else:
        assert errors == []
        [note] = preview.notes.volumes
        assert note.source == (
            "kopia snapshot k1, 77 bytes, incremental over what the claim has: every file of the backup is"
            " written but those that are the same by size, time and permissions; files that the backup does"
            " not have are kept (--compare-files names them)"
        )
    assert list(preview.notes.existing.values()) == [
        DataForClaim(namespace="ns-1", claim="kept", uploader="kopia", snapshot="k1", saved_namespace="ns-1")
    ]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("Filesystem", ", full over what the claim has: every file of the backup is written; files that the"),
        ("Block", ", over the whole device that the claim has"),
        ("", ""),
    ],
    ids=["file system", "device", "new claim"],
)
async def test_what_moved_data_is_written_over_is_foreseen(
    harness: Harness, foresee: Foresee, mode: str, said: str
) -> None:
    harness.request_fields = {"item_operations": [MOVED_CLAIM]}
    harness.world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-1"}})
    if mode:
        bound = {"spec": {"volumeName": "pv", "volumeMode": mode}, "status": {"phase": "Bound"}}
        harness.world.put({**claim("moved"), **bound})

    preview = await foresee(claim("moved"), files=MOVED_FILES, existing_volume_data_policy="full")

    [note] = preview.notes.volumes
    assert note.source.startswith(f"snapshot k2, moved into the location{said}")
    assert said or note.source.endswith("location")
    assert preview.results.errors.count == 0
    data = DataForClaim(
        namespace="ns-1", claim="moved", uploader="kopia", snapshot="k2", saved_namespace="ns-1"
    )
    assert list(preview.notes.existing.values()) == ([data] if mode else [])


@pytest.mark.parametrize("ask_server", [False, True], ids=["cluster", "server"])
async def test_what_the_api_server_refuses_is_known_only_if_it_is_asked(
    harness: Harness, foresee: Foresee, ask_server: bool
) -> None:
    harness.world.put(obj("Namespace", "ns-1"))
    refused = Forbidden(403, reason="Forbidden", message="admission webhook denied the request")
    harness.world.refuse("create", ("configmaps", "ns-1", "a"), refused)

    preview = await foresee(configmap("a"), configmap("b", "ns-2"), ask_server=ask_server)

    assert preview.outcomes.counts[Outcome.CREATED] == (2 if ask_server else 3)
    assert preview.results.errors.count == (1 if ask_server else 0)
    assert (preview.asked, preview.accepted) == ((2, 1) if ask_server else (0, 0)), (
        "a namespace, and a refusal"
    )
    assert preview.not_asked == (1 if ask_server else 0), (
        "nothing can be sent to a namespace that is not there"
    )
    assert ("configmaps", "ns-1", "b") not in harness.world.objects


async def test_an_immutable_field_is_foreseen_as_a_difference(harness: Harness, foresee: Foresee) -> None:
    harness.world.put(obj("Namespace", "ns-1"))
    harness.world.put(deployment("web", spec={"selector": "a"}))

    def immutable(_item: JSONObject) -> JSONObject:
        raise Invalid(422, reason="Invalid", message="spec.selector: field is immutable")

    harness.world.admit = immutable

    update = await foresee(deployment("web", spec={"selector": "b"}), existing_resource_policy="update")
    recreate = await foresee(deployment("web", spec={"selector": "b"}), existing_resource_policy="recreate")

    assert outcome_of(update.outcomes, "apps/v1/Deployment", "ns-1/web") == Outcome.DIFFERENT
    assert outcome_of(recreate.outcomes, "apps/v1/Deployment", "ns-1/web") == Outcome.RECREATED
    assert harness.world.deleted == []


async def test_a_tarball_that_cannot_be_read_is_foreseen_as_an_error(
    harness: Harness, foresee: Foresee
) -> None:
    twice = "resources/configmaps/namespaces/shop/a.json"
    found = await foresee(files={twice: b"{}", f"./{twice}": b"{}"})

    assert found.results.errors.velero == [f"error reading backup contents: {twice}: is twice in the archive"]
    assert found.outcomes.counts == {}


async def test_pod_volumes_and_hooks_are_noted(harness: Harness, foresee: Foresee) -> None:
    hooks = {
        "post.hook.restore.velero.io/command": '["/bin/true"]',
        "post.hook.restore.velero.io/container": "main",
    }
    preview = await foresee(
        pod("web", spec={"containers": [{"name": "main"}]}, annotations=hooks),
    )

    [hook] = preview.notes.hooks
    assert (hook.pod, hook.container, hook.command) == ("ns-1/web", "main", ("/bin/true",))


STATES = st.sampled_from(["absent", "same", "other", "going", "labelled"])
NAMES = ["a", "b"]
KINDS: list[Any] = [
    lambda name, value: configmap(name, data={"v": value}),
    lambda name, value: obj("Secret", name, "ns-1", data={"v": value}),
    lambda name, value: deployment(name, spec={"v": value}),
    lambda name, value: obj("ServiceAccount", name, "ns-1", secrets=[{"name": value}]),
    lambda name, value: claim(name, spec={"v": value}),
    lambda name, value: volume(name, spec={"v": value, "persistentVolumeReclaimPolicy": "Retain"}),
    lambda name, value: pod(name, "ns-2", spec={"v": value}),
    lambda name, value: obj("Job", name, "ns-2", api_version="batch/v1", spec={"v": value}),
    lambda name, value: obj("StorageClass", name, api_version="storage.k8s.io/v1", parameters={"v": value}),
]


@given(
    states=st.lists(STATES, min_size=len(KINDS) * 2, max_size=len(KINDS) * 2),
    policy=st.sampled_from(["none", "update", "recreate"]),
    immutable=st.booleans(),
    mapped=st.booleans(),
)
async def test_the_restore_does_what_was_foreseen(
    states: list[str], policy: str, immutable: bool, mapped: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        harness = Harness(Path(folder))
        items = []
        for number, state in enumerate(states):
            make, name = KINDS[number // 2], NAMES[number % 2]
            items.append(make(name, "1"))
            if state == "absent":
                continue
            existing = make(name, "1" if state in ("same", "labelled") else "2")
            if state == "going":
                existing["metadata"]["deletionTimestamp"] = "2021-08-11T00:00:00Z"
            if state == "labelled":
                existing["metadata"]["labels"] = {"velero.io/restore-name": "another"}
            harness.world.put(existing)
            if home := existing["metadata"].get("namespace"):
                harness.world.put(obj("Namespace", home))
        if immutable:
            refused = Invalid(422, reason="Invalid", message="spec: field is immutable")

            def refuse(verb: str, *_: str, world: ScriptedCluster = harness.world) -> None:
                if verb in ("patch", "simulate") and world.requests[-1].body.keys() != {"metadata"}:
                    raise refused

            harness.world.before = refuse
        spec: dict[str, Any] = {"existing_resource_policy": policy}
        if mapped:
            spec["namespace_mapping"] = {"ns-2": "ns-1"}
        before = copy.deepcopy(harness.world.objects)

        preview = await foreseer(harness, Path(folder), monkeypatch)(*items, **spec)
        assert harness.world.objects == before

        results = await harness.restore(*items, **spec)

        assert preview.outcomes.details() == harness.outcomes.details()
        assert preview.results.to_dict() == results.to_dict()


@pytest.mark.found("O22b")
@pytest.mark.parametrize(("policy", "outcome"), [("none", "different"), ("update", "updated")])
async def test_a_volume_whose_claim_is_gone_is_listed(
    harness: Harness, foresee: Foresee, policy: str, outcome: str
) -> None:
    def bound(**of_claim: str) -> JSONObject:
        return volume("pv", spec={"claimRef": {"namespace": "ns-1", "name": "data", **of_claim}})

    harness.world.put({**bound(uid="old"), "status": {"phase": "Released"}})
    before = copy.deepcopy(harness.world.objects)

    preview = await foresee(bound(uid="old"), existing_resource_policy=policy)

    assert outcome_of(preview.outcomes, "v1/PersistentVolume", "pv") == outcome
    assert ("until it is freed" in str(preview.results.warnings.cluster)) is (policy == "none")
    assert harness.world.objects == before

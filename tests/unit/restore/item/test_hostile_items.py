"""Objects that no API server would have stored: one clear error for each, and the restore goes on."""

import copy
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import (
    InitRestoreHook,
    Restore,
    RestoreHooks,
    RestoreResourceHook,
    RestoreResourceHookSpec,
    RestoreSpec,
)
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.kube.discovery import Discovery
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.builtin.restore.config import ActionError
from pinnace.plugins.protocols import RestoreItemInput
from tests.unit.restore.world import Harness, configmap, discovery, obj, pod, world_of

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
FIELDS = [
    *("spec", "status", "metadata", "labels", "annotations", "name", "namespace", "type", "data", "secrets"),
    *("ports", "nodePort", "clusterIP", "volumes", "containers", "volumeMounts", "initContainers"),
    *("template", "selector", "matchLabels", "claimRef", "subjects", "versions", "schema", "phase"),
    *("persistentVolumeClaim", "claimName", "volumeName", "storageClassName", "serviceAccountName"),
    *("openAPIV3Schema", "preserveUnknownFields", "completionTime", "persistentVolumeReclaimPolicy"),
    *(APPLIED, "volume.kubernetes.io/selected-node", "kubernetes.io/service-account.name"),
    *("init.hook.restore.velero.io/container-image", "init.hook.restore.velero.io/command"),
    *("post.hook.restore.velero.io/command", "velero.io/backup-name", "snapshot.velero.io/v"),
]
TEXTS = st.sampled_from(["", "x", "..", "None", "[", "[1]", '{"spec":[]}', "Bound", "true", "a/b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6)
HOOKS = RestoreHooks(
    resources=[
        RestoreResourceHookSpec(
            name="h",
            post_hooks=[RestoreResourceHook(init=InitRestoreHook(init_containers=[{"name": "x"}]))],
        )
    ]
)
RESTORE = Restore(spec=RestoreSpec(backup_name="b", hooks=HOOKS, namespace_mapping={"x": "y"}))


ACTIONS = restore_actions(world_of(), discovery(), "velero", pod_volumes=SavedPodVolumes())


# Objects take longer to make up than to act on: each is for all actions.
@settings(max_examples=4 * settings().max_examples)
@given(item=OBJECTS, original=OBJECTS)
@example(item={"metadata": {"annotations": {APPLIED: '{"spec": []}'}}}, original={})
@example(item={"metadata": {"annotations": {APPLIED: "[]"}}}, original={})
@example(item={"spec": {"ports": [{"name": []}]}}, original={})
@example(item={"spec": {"initContainers": {}}}, original={})
@example(item={"metadata": {"annotations": {"volume.kubernetes.io/selected-node": []}}}, original={})
async def test_no_action_fails_on_a_malformed_object(item: JSONObject, original: JSONObject) -> None:
    for action in ACTIONS:
        note(action.name)  # the last one is what failed
        try:
            output = await action.execute(
                RestoreItemInput(
                    item=copy.deepcopy(item), item_from_backup=copy.deepcopy(original), restore=RESTORE
                )
            )
        except ActionError:
            continue  # with a text of its own; everything else fails the test
        assert isinstance(output.item, dict)


@pytest.mark.parametrize(
    ("applied", "problem"),
    [
        ("{", "unexpected end of data"),
        ("[]", "it is not an object"),
        ('{"spec": [1]}', "spec is not an object"),
        ('{"spec": {"ports": {}}}', "spec.ports is not a list"),
        ('{"spec": {"ports": [[]]}}', "a port is not an object"),
    ],
)
async def test_an_odd_manifest_of_kubectl_is_one_clear_error(
    harness: Harness, applied: str, problem: str
) -> None:
    service = obj("Service", "s", "ns-1", spec={"ports": [{"port": 80}]}, annotations={APPLIED: applied})

    results = await harness.restore(service, configmap("cm"))

    (message,) = results.errors.namespaces["ns-1"]
    start = f"error preparing services/ns-1/s: error reading annotation {APPLIED}: "
    assert message.startswith(start + problem)
    assert harness.world.created_of("configmaps") == ["ns-1/cm"]


@pytest.mark.parametrize("name", [".", "..", "%2e", " ", "a b", "\u202e"])
@pytest.mark.parametrize("body", [b"{}", b"[]", b"{", b'"x"', b""], ids=repr)
async def test_a_file_whose_name_no_object_can_have_is_one_error(
    harness: Harness, name: str, body: bytes
) -> None:
    path = f"resources/pods/namespaces/ns-1/{name}.json"

    results = await harness.restore(pod("fine"), files={path: body})

    (message,) = results.errors.namespaces["ns-1"]
    assert message.startswith(f'error decoding "{path}": ')
    assert harness.world.created_of("pods") == ["ns-1/fine"]


KINDS = {
    "pods": ("v1", "Pod", "ns-1"),
    "services": ("v1", "Service", "ns-1"),
    "secrets": ("v1", "Secret", "ns-1"),
    "serviceaccounts": ("v1", "ServiceAccount", "ns-1"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim", "ns-1"),
    "persistentvolumes": ("v1", "PersistentVolume", ""),
    "jobs.batch": ("batch/v1", "Job", "ns-1"),
    "rolebindings.rbac.authorization.k8s.io": ("rbac.authorization.k8s.io/v1", "RoleBinding", "ns-1"),
    "customresourcedefinitions.apiextensions.k8s.io": (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
    ),
}


def stored(kind: str, body: JSONObject) -> tuple[str, JSONObject]:
    """A hostile object that at least says what it is; and the path of its file."""
    api_version, singular, namespace = KINDS[kind]
    metadata = body.get("metadata")
    metadata = {**(metadata if isinstance(metadata, dict) else {}), "name": "x"}
    scope = f"namespaces/{namespace}" if namespace else "cluster"
    if namespace:
        metadata["namespace"] = namespace
    item = {**body, "apiVersion": api_version, "kind": singular, "metadata": metadata}
    return f"resources/{kind}/{scope}/x.json", item


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(kind=st.sampled_from(sorted(KINDS)), body=OBJECTS, existing=st.none() | OBJECTS, mapped=st.booleans())
async def test_whatever_an_archive_holds_its_object_is_restored_or_an_error(
    kind: str, body: JSONObject, existing: JSONObject | None, mapped: bool
) -> None:
    path, item = stored(kind, body)
    with tempfile.TemporaryDirectory() as directory:
        harness = Harness(Path(directory))
        harness.load_discovery = _served  # type: ignore[method-assign]
        if existing is not None:
            there = stored(kind, existing)[1]
            there["metadata"] = {"name": "x", "namespace": "ns-1"}
            harness.world.put(there, kind)
        results = await harness.restore(
            configmap("honest"),
            files={path: orjson.dumps(item)},
            namespace_mapping={"ns-1": "m1"} if mapped else {},
        )

    assert ("configmaps", "m1" if mapped else "ns-1", "honest") in harness.world.created
    for _, message in [*results.errors.notices(), *results.warnings.notices()]:
        assert "Traceback" not in message


async def _served() -> Discovery:
    return discovery()


class Careless:
    """An action of a plugin that expects every object to be well formed."""

    name = "example.com/careless"

    async def applies_to(self) -> Any:
        from pinnace.plugins.protocols import ResourceSelector

        return ResourceSelector(included_resources=("pods",))

    async def execute(self, given: RestoreItemInput) -> Any:
        given.item["spec"]["containers"][0].get("image")
        raise AssertionError("not reached")


async def test_a_plugin_that_fails_on_a_malformed_object_is_named_in_the_error(harness: Harness) -> None:
    harness.actions = [Careless()]

    results = await harness.restore(pod("p", spec={"containers": [[]]}), configmap("cm"))

    assert results.errors.namespaces["ns-1"] == [
        "error preparing pods/ns-1/p: example.com/careless cannot deal with it"
        " (AttributeError: 'list' object has no attribute 'get')"
    ]
    assert harness.world.created_of("configmaps") == ["ns-1/cm"]

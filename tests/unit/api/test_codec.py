"""Reading and writing objects: what is left out, what is tolerated, what is refused."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from pinnace.api.codec import DecodeError, decode, encode, encode_over, merge_patch
from pinnace.api.definitions.definition import Definition
from pinnace.api.definitions.velero import DEFINITIONS
from pinnace.api.meta import LabelSelector, ObjectMeta, OwnerReference
from pinnace.api.objects import dump_json
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import (
    Backup,
    BackupHooks,
    BackupProgress,
    BackupResourceHook,
    BackupResourceHookSpec,
    BackupSpec,
    ExecHook,
)
from pinnace.api.velero.delete_request import DeleteBackupRequest
from pinnace.api.velero.download_request import DownloadRequest
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeRestore
from pinnace.api.velero.restic_repository import ResticRepository
from pinnace.api.velero.restore import ExecRestoreHook, InitRestoreHook, Restore
from pinnace.api.velero.schedule import Schedule
from pinnace.api.velero.server_status import PluginInfo
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    ObjectStorageLocation,
    SecretKeySelector,
)

MOMENT = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)


class TestWriting:
    """The rules of docs/spec API 1 for what is written and what is left out."""

    @pytest.mark.parametrize(
        ("empty", "spec"),
        [
            (Backup(), {"ttl": "0s", "hooks": {}}),
            (Restore(), {"backupName": "", "hooks": {}}),
            (Schedule(), {"template": {"ttl": "0s", "hooks": {}}, "schedule": ""}),
            (BackupStorageLocation(), {"provider": "", "objectStorage": {"bucket": ""}}),
            (VolumeSnapshotLocation(), {"provider": ""}),
            (DeleteBackupRequest(), {"backupName": ""}),
            (DownloadRequest(), {"target": {"kind": "", "name": ""}}),
        ],
        ids=lambda value: getattr(value, "kind", ""),
    )
    def test_empty_objects(self, empty: Struct, spec: dict[str, Any]) -> None:
        encoded = encode(empty)
        assert encoded["spec"] == spec
        assert encoded["metadata"] == {}
        assert encoded["status"] == {}

    def test_embedded_objects_of_pod_volumes(self) -> None:
        backup, restore = encode(PodVolumeBackup()), encode(PodVolumeRestore())
        common = {"pod": {}, "volume": "", "backupStorageLocation": "", "repoIdentifier": ""}
        assert backup["spec"] == {"node": "", **common}
        assert restore["spec"] == {**common, "snapshotID": ""}
        assert backup["status"] == restore["status"] == {"progress": {}}

    def test_required_fields_of_repositories(self) -> None:
        assert encode(ResticRepository())["spec"] == {
            "volumeNamespace": "",
            "backupStorageLocation": "",
            "resticIdentifier": "",
            "maintenanceFrequency": "0s",
        }

    def test_always_written_parts(self) -> None:
        assert encode(SecretKeySelector()) == {"key": ""}
        assert encode(PluginInfo()) == {"name": "", "kind": ""}
        assert encode(ExecHook()) == {"command": [], "timeout": "0s"}
        assert encode(ExecRestoreHook()) == {"command": [], "execTimeout": "0s", "waitTimeout": "0s"}
        assert encode(InitRestoreHook()) == {"initContainers": [], "timeout": "0s"}
        assert encode(BackupResourceHookSpec()) == {"name": ""}

    def test_three_state_fields_keep_false_and_zero(self) -> None:
        assert encode(BackupSpec(snapshot_volumes=False, default_volumes_to_restic=False)) == {
            "snapshotVolumes": False,
            "ttl": "0s",
            "hooks": {},
            "defaultVolumesToRestic": False,
        }
        location = BackupStorageLocation()
        location.spec.backup_sync_period = Duration()
        assert encode(location)["spec"]["backupSyncPeriod"] == "0s"
        assert encode(BackupSpec(label_selector=LabelSelector()))["labelSelector"] == {}

    def test_values_are_ready_for_json(self) -> None:
        backup = Backup(metadata=ObjectMeta(name="b", labels={"a": "b"}, creation_timestamp=MOMENT))
        backup.status.phase = BackupPhase.COMPLETED
        backup.status.progress = BackupProgress(total_items=2)
        encoded = encode(backup)
        assert encoded["metadata"] == {
            "name": "b",
            "creationTimestamp": "2021-08-11T21:43:26Z",
            "labels": {"a": "b"},
        }
        assert encoded["status"] == {"phase": "Completed", "progress": {"totalItems": 2}}
        assert type(encoded["status"]["phase"]) is str
        assert (
            encode(ObjectStorageLocation(bucket="b", ca_cert=b"cacert-data"))["caCert"] == "Y2FjZXJ0LWRhdGE="
        )

    def test_nothing_is_shared_with_the_object(self) -> None:
        hook = InitRestoreHook(init_containers=[{"name": "x", "env": [{"name": "A"}]}])
        encoded = encode(hook)
        encoded["initContainers"][0]["env"].append({})
        assert hook.init_containers == [{"name": "x", "env": [{"name": "A"}]}]

    def test_objects_no_server_has_seen(self) -> None:
        backup = Backup(metadata=ObjectMeta(name="b1", namespace="velero", labels={"x": "y"}))
        backup.spec.included_namespaces = ["nginx"]
        backup.spec.ttl = Duration.hours(720)
        encoded = encode(backup, unsent=True)
        assert encoded == {
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": {
                "creationTimestamp": None,
                "name": "b1",
                "namespace": "velero",
                "labels": {"x": "y"},
            },
            "spec": {"hooks": {}, "includedNamespaces": ["nginx"], "ttl": "720h0m0s"},
            "status": {},
        }
        assert list(encoded["metadata"]) == ["name", "namespace", "creationTimestamp", "labels"]
        assert encode(ExecHook(), unsent=True) == encode(ExecHook())

    def test_unsent_keeps_a_time_that_is_there(self) -> None:
        backup = Backup(metadata=ObjectMeta(creation_timestamp=MOMENT))
        assert encode(backup, unsent=True) == encode(backup)


class TestReading:
    """Tolerance toward Go clients and newer versions, and its limits."""

    def test_null_is_absent(self) -> None:
        raw = {
            "metadata": {"name": "b", "creationTimestamp": None, "labels": None, "ownerReferences": None},
            "spec": {
                "includedNamespaces": None,
                "labelSelector": None,
                "snapshotVolumes": None,
                "orderedResources": None,
                "hooks": {"resources": [{"name": "h", "includedNamespaces": None, "labelSelector": None}]},
                "storageLocation": None,
            },
            "status": {"expiration": None, "progress": None, "validationErrors": None, "warnings": None},
        }
        before = copy.deepcopy(raw)
        expected = Backup(metadata=ObjectMeta(name="b"))
        expected.spec.hooks = BackupHooks(resources=[BackupResourceHookSpec(name="h")])
        assert decode(Backup, raw) == expected
        assert decode(Backup, json.dumps(raw)) == expected
        assert raw == before

    def test_null_parts_are_absent(self) -> None:
        assert decode(Backup, b'{"metadata":null,"spec":null,"status":null}') == Backup()
        location = b'{"spec":{"validationFrequency":null,"credential":null,"objectStorage":{"caCert":null}}}'
        assert decode(BackupStorageLocation, location) == BackupStorageLocation()

    @pytest.mark.spec("API-036")
    @pytest.mark.parametrize("ttl", ["1d", "", None, 5, "5"])
    def test_bad_durations_refused(self, ttl: object) -> None:
        with pytest.raises(DecodeError) as caught:
            decode(Backup, json.dumps({"spec": {"ttl": ttl, "includedNamespaces": None}}))
        assert caught.value.path == "spec.ttl"

    def test_null_refused_for_every_duration_that_must_be_there(self) -> None:
        for cls, raw in (
            (ResticRepository, {"spec": {"maintenanceFrequency": None}}),
            (ExecHook, {"timeout": None}),
            (ExecRestoreHook, {"waitTimeout": None}),
        ):
            with pytest.raises(DecodeError, match="duration"):
                decode(cls, raw)

    def test_newer_objects(self) -> None:
        raw = {
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": {"name": "b", "managedFields": [{"manager": "x"}]},
            "spec": {
                "ttl": "1h0m0s",
                "itemOperationTimeout": "4h0m0s",
                "metadata": {},
                "snapshotMoveData": None,
            },
            "status": {
                "phase": "OfTheFuture",
                "laterStatus": {"hooksAttempted": 1},
            },
        }
        backup = decode(Backup, raw)
        assert backup.status.phase == "OfTheFuture"
        assert backup.status.phase not in list(BackupPhase)
        assert backup.spec.ttl == Duration.hours(1)

    def test_missing_kind_is_filled_in_and_another_refused(self) -> None:
        assert decode(PodVolumeBackup, b'{"metadata":{"name":"x"}}').kind == "PodVolumeBackup"
        assert decode(PodVolumeBackup, b'{"kind":"","apiVersion":""}').api_version == "velero.io/v1"
        with pytest.raises(DecodeError, match="kind: expected Backup"):
            decode(Backup, b'{"kind":"Restore"}')
        with pytest.raises(DecodeError, match=r"apiVersion: expected velero\.io/v1"):
            decode(Backup, {"apiVersion": "velero.io/v2"})

    def test_kind_can_be_required(self) -> None:
        with pytest.raises(DecodeError, match="apiVersion: missing"):
            decode(Backup, b'{"kind":"Backup","metadata":{}}', require_kind=True)
        with pytest.raises(DecodeError, match="kind: missing"):
            decode(Backup, {}, require_kind=True)
        backup = decode(Backup, dump_json(encode(Backup(metadata=ObjectMeta(name="b")))), require_kind=True)
        assert backup.metadata.name == "b"

    @pytest.mark.parametrize(
        ("data", "path"),
        [
            (b"", ""),
            (b"[]", ""),
            (b"null", ""),
            (b"{", ""),
            (b"\xff", ""),
            (b'{"metadata":{"name":"\xff"}}', ""),
            ('{"metadata":{"name":"\ud800"}}', ""),
            (b"[" * 100_000, ""),
            (b'{"spec":{"includedNamespaces":["a",1]}}', "spec.includedNamespaces[1]"),
            (b'{"spec":{"hooks":{"resources":[{"pre":[{"exec":{"timeout":"1d"}}]}]}}}', None),
            (b'{"status":{"startTimestamp":"2021-08-11T21:43:26"}}', "status.startTimestamp"),
            (b'{"status":{"errors":"none","warnings":null}}', "status.errors"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_errors_name_the_path(self, data: bytes | str, path: str | None) -> None:
        with pytest.raises(DecodeError) as caught:
            decode(Backup, data)
        assert caught.value.problem
        assert str(caught.value).startswith("Backup: ")
        assert caught.value.path == (
            path if path is not None else "spec.hooks.resources[0].pre[0].exec.timeout"
        )

    def test_errors_never_show_values(self) -> None:
        with pytest.raises(DecodeError) as caught:
            decode(BackupStorageLocation, {"spec": {"config": "s3cr3t", "provider": ["s3cr3t"]}})
        assert "s3cr3t" not in str(caught.value)

    def test_containers_keep_all_their_fields(self) -> None:
        containers = [{"name": "x", "image": "i", "newField": {"a": None}}]
        raw = {"spec": {"hooks": {"resources": [{"postHooks": [{"init": {"initContainers": containers}}]}]}}}
        restore = decode(Restore, raw)
        hook = restore.spec.hooks.resources[0].post_hooks[0].init
        assert hook is not None
        assert hook.init_containers == containers


def _full_backup() -> Backup:
    backup = Backup(
        metadata=ObjectMeta(
            name="b",
            namespace="velero",
            uid="u",
            resource_version="7",
            generation=2,
            creation_timestamp=MOMENT,
            annotations={"x": "y"},
            owner_references=[
                OwnerReference(
                    api_version="velero.io/v1", kind="Schedule", name="s", uid="1", controller=True
                )
            ],
        ),
        spec=BackupSpec(
            included_namespaces=["a"],
            ttl=Duration.hours(1),
            snapshot_volumes=False,
            label_selector=LabelSelector(match_labels={"a": "b"}),
            ordered_resources={"pods": "ns/a,ns/b"},
        ),
    )
    exec_hook = ExecHook(command=["/bin/true"], on_error="Continue", timeout=Duration.seconds(5))
    backup.spec.hooks.resources = [BackupResourceHookSpec(name="h", pre=[BackupResourceHook(exec=exec_hook)])]
    backup.status.phase = BackupPhase.IN_PROGRESS
    backup.status.start_timestamp = MOMENT
    return backup


def test_reading_inverts_writing() -> None:
    backup = _full_backup()
    assert decode(Backup, encode(backup)) == backup
    assert decode(Backup, dump_json(encode(backup))) == backup
    assert copy.deepcopy(backup) == backup


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind.kind)
def test_every_kind_survives_the_way_through_json(definition: Definition) -> None:
    empty = definition.struct()
    encoded = encode(empty, unsent=True)
    assert encoded["kind"] == definition.kind.kind
    assert decode(definition.struct, encoded) == empty


def test_instances_share_no_defaults() -> None:
    one = Backup()
    one.spec.included_namespaces.append("a")
    one.metadata.labels["a"] = "b"
    one.spec.hooks.resources.append(BackupResourceHookSpec())
    assert Backup().spec.included_namespaces == []
    assert Backup().metadata.labels == {}
    assert Backup().spec.hooks.resources == []


class TestMergePatch:
    """The difference that is sent to the server."""

    @pytest.mark.parametrize(
        ("before", "after", "patch"),
        [
            ({}, {}, {}),
            ({"a": 1}, {"a": 1}, {}),
            ({"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 3}),
            ({"a": 1}, {}, {"a": None}),
            ({"a": None}, {}, {}),
            ({"a": 1}, {"a": None}, {"a": None}),
            ({}, {"a": None}, {}),
            ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
            ({"a": {"b": None}}, {"a": {}}, {}),
            ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
            ({"a": 1}, {"a": {}}, {"a": {}}),
            ({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}),
            ({"a": 1}, {"a": True}, {"a": True}),
            ({"a": [0]}, {"a": [False]}, {"a": [False]}),
            ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": True}}}, {"a": {"b": {"c": True}}}),
        ],
    )
    def test_difference(self, before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]) -> None:
        assert merge_patch(before, after) == patch

    def test_unknown_fields_stay_out_of_it(self) -> None:
        stored = {"kind": "Backup", "metadata": {"name": "b"}, "spec": {"ttl": "1h0m0s", "newer": 1}}
        before = decode(Backup, stored)
        after = copy.deepcopy(before)
        after.status.phase = BackupPhase.IN_PROGRESS
        assert merge_patch(encode(before), encode(after)) == {"status": {"phase": "InProgress"}}

    def test_shares_nothing_with_the_new_object(self) -> None:
        after = {"a": {"b": [1]}}
        patch = merge_patch({}, after)
        patch["a"]["b"].append(2)
        assert after == {"a": {"b": [1]}}


_json = st.recursive(
    st.one_of(st.booleans(), st.integers(0, 3), st.sampled_from(["", "x"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
_objects = st.dictionaries(st.sampled_from("abc"), _json, max_size=3)


def _apply(target: object, patch: object) -> object:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _apply(result.get(key), value)
    return result


@given(_objects, _objects)
def test_applying_the_patch_gives_the_new_object(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = merge_patch(before, after)
    assert json.dumps(_apply(before, patch), sort_keys=True) == json.dumps(after, sort_keys=True)
    assert (patch == {}) == (json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True))


def test_an_object_that_is_written_back_keeps_the_fields_of_other_versions() -> None:
    hooks = {"resources": [{"name": "a", "newer": 1, "pre": [{"exec": {"command": ["x"], "shell": "sh"}}]}]}
    read = {
        "kind": "Backup",
        "apiVersion": "velero.io/v1",
        "metadata": {"name": "b", "managedFields": [{}]},
        "spec": {
            "ttl": "1h0m0s",
            "compression": {"level": 9},
            "hooks": hooks,
            "labelSelector": {"matchAny": 1},
        },
        "status": {"phase": "New", "progress": {"bytes": 7}, "seal": None},
        "extra": [1],
    }
    backup = decode(Backup, read)
    backup.status.phase = BackupPhase.COMPLETED
    backup.spec.ttl = Duration.parse("2h")

    written = encode_over(backup, read)

    assert written["spec"]["compression"] == {"level": 9}
    assert written["spec"]["labelSelector"] == {"matchAny": 1}
    assert written["spec"]["hooks"]["resources"][0]["newer"] == 1
    assert written["spec"]["hooks"]["resources"][0]["pre"][0]["exec"]["shell"] == "sh"
    assert written["status"] == {"phase": "Completed", "progress": {"bytes": 7}, "seal": None}
    assert (written["extra"], written["spec"]["ttl"]) == ([1], "2h0m0s")
    assert written["metadata"] == {"name": "b"}
    assert decode(Backup, written) == backup

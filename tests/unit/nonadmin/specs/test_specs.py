"""The checks of tenants' specs, and the specs made from them. (docs/spec: NAC 6)"""

import json
from typing import Any

import pytest

from pinnace.api.labels import CHOSEN_OBJECTS
from pinnace.api.nonadmin.exclusions import (
    ALWAYS_EXCLUDED,
    CLUSTER_OWN_KINDS,
    GUARDED_KINDS,
    NAMESPACED_OWN_KINDS,
    OWN_KINDS,
)
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import BackupSpec
from pinnace.api.velero.restore import RestoreSpec
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.settings.values import fields
from pinnace.nonadmin.specs.backup import StorageChoice, backup_problem, backup_spec
from pinnace.nonadmin.specs.location import is_plain_prefix, location_problem, location_spec, secret_problem
from pinnace.nonadmin.specs.restore import restore_problem, restore_spec

NONE = StorageChoice()
SERVER = "velero"
KEYS = "W2RlZmF1bHRdCmF3c19hY2Nlc3Nfa2V5X2lkPWEKYXdzX3NlY3JldF9hY2Nlc3Nfa2V5PWIK"
Spec = dict[str, Any]


def non_admin_backup(**spec: Any) -> Spec:
    return {"metadata": {"name": "nightly", "namespace": "shop"}, "spec": {"backupSpec": spec}}


def judged(settings: AdminSettings | None = None, /, **spec: Any) -> str:
    return backup_problem(non_admin_backup(**spec), NONE, settings or AdminSettings(), SERVER)


OTHERS = (
    "NonAdminBackup spec.backupSpec.includedNamespaces is restricted, "
    "can not contain namespaces other than: shop"
)


@pytest.mark.spec("NAC-007")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["shop"], ""),
        (["shop", "shop"], ""),
        ([], ""),
        (None, ""),
        (["other"], OTHERS),
        (["shop", "other"], OTHERS),
        (["*"], OTHERS),
    ],
)
def test_only_the_own_namespace_may_be_included(given: list[str] | None, text: str) -> None:
    assert judged(includedNamespaces=given) == text


@pytest.mark.spec("NAC-008")
@pytest.mark.parametrize("name", ["excludedNamespaces", "volumeSnapshotLocations"])
def test_a_restricted_list_is_refused_unless_absent(name: str) -> None:
    for given in (["shop"], []):
        assert judged(**{name: given}) == f"NonAdminBackup spec.backupSpec.{name} is restricted"
    assert judged(**{name: None}) == ""


@pytest.mark.spec("NAC-009")
def test_cluster_scoped_resources_are_refused() -> None:
    text = "NonAdminBackup spec.backupSpec.includeClusterResources is restricted, can only be set to false"
    assert judged(includeClusterResources=True) == text
    assert judged(includeClusterResources=False) == judged(includeClusterResources=None) == ""


def created(nacuuid: str = "id-1", phase: str = "Created") -> Spec:
    return {"status": {"phase": phase, "veleroBackupStorageLocation": {"nacuuid": nacuuid, "name": nacuuid}}}


@pytest.mark.spec("NAC-010")
@pytest.mark.parametrize(
    ("storage", "text"),
    [
        (
            NONE,
            "NonAdminBackupStorageLocation not found in the namespace: "
            'NonAdminBackupStorageLocation.oadp.openshift.io "mine" not found',
        ),
        (
            StorageChoice(request=created(phase="BackingOff")),
            "NonAdminBackupStorageLocation is not in created state "
            "and can not be used for the NonAdminBackup",
        ),
        (
            StorageChoice(request=created("")),
            "unable to get VeleroBackupStorageLocation UUID from NonAdminBackupStorageLocation Status",
        ),
        (
            StorageChoice(request=created(), ambiguous="multiple"),
            "unable to get valid VeleroBackupStorageLocation referenced by the NACUUID id-1 "
            "from NonAdminBackupStorageLocation Status: multiple",
        ),
        (
            StorageChoice(request=created()),
            "VeleroBackupStorageLocation with NACUUID id-1 not found in the OADP namespace",
        ),
        (
            StorageChoice(request=created(), location={"status": {"phase": "Unavailable"}}),
            "VeleroBackupStorageLocation with NACUUID id-1 is not in available state "
            "and can not be used for the NonAdminBackup",
        ),
        (StorageChoice(request=created(), location={"status": {"phase": "Available"}}), ""),
    ],
)
def test_a_storage_location_must_be_usable(storage: StorageChoice, text: str) -> None:
    assert backup_problem(non_admin_backup(storageLocation="mine"), storage, AdminSettings(), SERVER) == text


def test_fields_that_are_not_supported_are_refused_by_name() -> None:
    text = "NonAdminBackup spec.backupSpec.volumeGroupSnapshotLabelKey is not supported ("
    assert judged(volumeGroupSnapshotLabelKey="group").startswith(text)
    text = "NonAdminRestore nonAdminRestore.spec.restoreSpec.existingResourcePolicy is restricted"
    given = non_admin_restore(backupName="x", existingResourcePolicy="recreate")
    assert restore_problem(given, READY, AdminSettings(), SERVER).startswith(text)
    storage = {"bucket": "b", "caCertRef": {"name": "n", "key": "k"}}
    assert "objectStorage.caCertRef is not supported (it names a Secret of the server" in located(
        objectStorage=storage
    )


# What is enforced, what equals it, what differs, and how the enforced value is shown.
SELECTOR = {"matchLabels": {"a": "b"}}
HOOKS = {"resources": [{"name": "h"}]}
BACKUP_CASES: dict[str, tuple[Any, Any, Any, str]] = {
    "includedResources": (["a", "b"], ["a", "b"], ["b", "a"], "[a b]"),
    "excludedResources": (["a"], ["a"], [], "[a]"),
    "labelSelector": (SELECTOR, SELECTOR, {}, '{"matchLabels":{"a":"b"}}'),
    "snapshotVolumes": (False, False, True, "false"),
    "backupType": ("Incremental", "Incremental", "Full", "Incremental"),
    "ttl": ("36h", "2160m", "1h", "36h0m0s"),
    "includeClusterResources": (False, False, None, "false"),
    "hooks": (HOOKS, HOOKS, {"resources": []}, '{"resources":[{"name":"h"}]}'),
    "defaultVolumesToRestic": (True, True, False, "true"),
    "orderedResources": ({"b": "1", "a": "2"}, {"a": "2", "b": "1"}, {}, "map[a:2 b:1]"),
    "defaultVolumesToFsBackup": (True, True, False, "true"),
    "metadata": ({"labels": {"a": "b"}}, {"labels": {"a": "b"}}, {"labels": {}}, '{"labels":{"a":"b"}}'),
    "csiSnapshotTimeout": ("20m", "1200s", "1h", "20m0s"),
    "snapshotMoveData": (True, True, False, "true"),
    "datamover": ("velero", "velero", "other", "velero"),
    "uploaderConfig": (
        {"parallelFilesUpload": 4},
        {"parallelFilesUpload": 4},
        {"parallelFilesUpload": 5},
        '{"parallelFilesUpload":4}',
    ),
    "itemOperationTimeout": ("1h", "3600s", "2h", "1h0m0s"),
    "orLabelSelectors": ([SELECTOR], [SELECTOR], [{}], '[{"matchLabels":{"a":"b"}}]'),
    "excludedClusterScopedResources": (["a"], ["a"], ["b"], "[a]"),
    "includedNamespaceScopedResources": (["a"], ["a"], ["b"], "[a]"),
    "excludedNamespaceScopedResources": (["a"], ["a"], ["b"], "[a]"),
}
NOT_ENFORCED_BACKUP = {
    "includedNamespaces",
    "excludedNamespaces",
    "storageLocation",
    "volumeSnapshotLocations",
    "includedClusterScopedResources",
    "resourcePolicy",
}
RESTORE_CASES: dict[str, tuple[Any, Any, Any, str]] = {
    "itemOperationTimeout": ("1h", "3600s", "2h", "1h0m0s"),
    "includedResources": (["a"], ["a"], ["b"], "[a]"),
    "excludedResources": (["a"], ["a"], ["b"], "[a]"),
    "labelSelector": (SELECTOR, SELECTOR, {}, '{"matchLabels":{"a":"b"}}'),
    "restorePVs": (False, False, True, "false"),
    "preserveNodePorts": (True, True, False, "true"),
    "includeClusterResources": (False, False, None, "false"),
    "hooks": (HOOKS, HOOKS, {"resources": []}, '{"resources":[{"name":"h"}]}'),
    "orLabelSelectors": ([SELECTOR], [SELECTOR], [{}], '[{"matchLabels":{"a":"b"}}]'),
    "existingResourcePolicy": ("update", "update", "none", "update"),
    "uploaderConfig": (
        {"parallelFilesDownload": 4},
        {"parallelFilesDownload": 4},
        {"parallelFilesDownload": 5},
        '{"parallelFilesDownload":4}',
    ),
}
NOT_ENFORCED_RESTORE = {
    "backupName", "scheduleName", "includedNamespaces", "excludedNamespaces", "namespaceMapping",
    "restoreStatus", "resourceModifier", "skipDefaultResourceModifier", "resourcePolicy",
    "existingVolumeDataPolicy",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "excluded"),
    [
        ({}, {"excludedNamespaceScopedResources", "excludedClusterScopedResources"}),
        (
            {"includedNamespaceScopedResources": ["pods"]},
            {"excludedNamespaceScopedResources", "excludedClusterScopedResources"},
        ),
        ({"includedResources": ["pods"]}, {"excludedResources"}),
    ],
)
def test_prescribed_policies_may_have_filters(given: dict[str, Any], excluded: set[str]) -> None:
    policy = {"kind": "configmap", "name": "filters-of-tenants"}
    settings = AdminSettings(backup={"resourcePolicy": policy})
    assert judged(settings, **given) == ""
    spec = backup_spec(non_admin_backup(**given), NONE, settings)

    assert spec["resourcePolicy"] == policy
    assert {name for name in spec if name.startswith("excluded")} == excluded
    assert set(ALWAYS_EXCLUDED) == {kind for name in excluded for kind in spec[name]}


@pytest.mark.spec("NAC-014")
def test_every_field_has_an_enforcement_case() -> None:
    assert set(fields(BackupSpec)) == set(BACKUP_CASES) | NOT_ENFORCED_BACKUP
    assert set(fields(RestoreSpec)) == set(RESTORE_CASES) | NOT_ENFORCED_RESTORE


@pytest.mark.spec("NAC-011", "NAC-059")
@pytest.mark.parametrize("name", BACKUP_CASES)
def test_a_backup_that_contradicts_an_enforced_field_is_refused(name: str) -> None:
    enforced, same, different, shown = BACKUP_CASES[name]
    settings = AdminSettings(backup={name: enforced})

    assert judged(settings) == judged(settings, **{name: same}) == judged(settings, **{name: None}) == ""
    made = backup_spec(non_admin_backup(), NONE, settings)[name]
    added = {
        "excludedResources": ALWAYS_EXCLUDED,
        "excludedClusterScopedResources": CLUSTER_OWN_KINDS,
        "excludedNamespaceScopedResources": NAMESPACED_OWN_KINDS,
    }
    assert made == ([*enforced, *added[name]] if name in added else enforced)
    if different is not None:
        text = f"the administrator has restricted spec.backupSpec.{name} field value to {shown}"
        assert judged(settings, **{name: different}) == text


def test_a_tenant_cannot_delay_others_by_snapshots_that_never_come() -> None:
    assert judged(AdminSettings(), csiSnapshotTimeout="10m") == ""
    text = "NonAdminBackup spec.backupSpec.csiSnapshotTimeout can not be longer than 10m0s"
    assert judged(AdminSettings(), csiSnapshotTimeout="1000h") == text
    enforced = AdminSettings(backup={"csiSnapshotTimeout": "1h"})
    assert judged(enforced) == judged(enforced, csiSnapshotTimeout="60m") == ""


def test_filters_of_each_scope_exclude_what_no_tenant_gets() -> None:
    request = non_admin_backup(
        includedNamespaceScopedResources=["pods"], excludedClusterScopedResources=["*"]
    )
    spec = backup_spec(request, NONE, AdminSettings())

    assert judged(includedNamespaceScopedResources=["pods"], excludedClusterScopedResources=["*"]) == ""
    assert spec["excludedNamespaceScopedResources"] == [*NAMESPACED_OWN_KINDS]
    assert spec["excludedClusterScopedResources"] == ["*"]
    assert "excludedResources" not in spec
    assert set(CLUSTER_OWN_KINDS) | set(NAMESPACED_OWN_KINDS) == set(ALWAYS_EXCLUDED)


@pytest.mark.parametrize(
    ("enforced", "given"),
    [
        ({"excludedResources": ["secrets"]}, {"includedNamespaceScopedResources": ["secrets"]}),
        ({"includeClusterResources": False}, {"excludedNamespaceScopedResources": ["pods"]}),
        ({"excludedNamespaceScopedResources": ["secrets"]}, {"includedResources": ["secrets"]}),
        ({"labelSelector": SELECTOR}, {"orLabelSelectors": [{"matchLabels": {"c": "d"}}]}),
        ({"orLabelSelectors": [SELECTOR]}, {"labelSelector": {"matchLabels": {"c": "d"}}}),
    ],
)
def test_a_filter_of_another_kind_does_not_get_around_the_administrators(enforced: Spec, given: Spec) -> None:
    problem = judged(AdminSettings(backup=enforced), **given)
    assert "cannot be used together" in problem or "only one can be specified" in problem


def test_a_tenants_selectors_of_a_restore_do_not_get_around_the_administrators() -> None:
    settings = AdminSettings(restore={"labelSelector": SELECTOR})
    request = non_admin_restore(backupName="x", orLabelSelectors=[{"matchLabels": {"c": "d"}}])
    assert "only one can be specified" in restore_problem(request, READY, settings, SERVER)


def test_hooks_can_be_forbidden() -> None:
    settings = AdminSettings(backup={"hooks": {"resources": []}})
    assert judged(settings) == judged(settings, hooks={}) == judged(settings, hooks={"resources": []}) == ""
    assert "restricted spec.backupSpec.hooks" in judged(settings, hooks=HOOKS)
    assert backup_spec(non_admin_backup(), NONE, settings)["hooks"] == {"resources": []}


@pytest.mark.spec("NAC-012")
def test_an_empty_spec_is_filled_in() -> None:
    request = non_admin_backup()
    spec = backup_spec(request, NONE, AdminSettings(backup={"snapshotVolumes": False, "ttl": "36h"}))

    assert spec == {
        "snapshotVolumes": False,
        "ttl": "36h",
        "includedNamespaces": ["shop"],
        "excludedResources": [
            "nonadminbackups",
            "nonadminrestores",
            "nonadminbackupstoragelocations",
            "securitycontextconstraints",
            "clusterroles",
            "clusterrolebindings",
            "priorityclasses",
            "customresourcedefinitions",
            "virtualmachineclusterinstancetypes",
            "virtualmachineclusterpreferences",
            "nonadmindownloadrequests",
            "runtimeclasses",
        ],
    }
    assert request == non_admin_backup()


@pytest.mark.spec("NAC-013")
def test_the_tenants_exclusions_come_first() -> None:
    excluded = backup_spec(non_admin_backup(excludedResources=["secrets"]), NONE, AdminSettings())[
        "excludedResources"
    ]
    assert excluded[:11] == ["secrets", *OWN_KINDS]


# --- Restores -------------------------------------------------------------------------------------------


def non_admin_restore(**spec: Any) -> Spec:
    return {"metadata": {"name": "back", "namespace": "shop"}, "spec": {"restoreSpec": spec}}


READY: Spec = {"status": {"phase": "Created", "veleroBackup": {"name": "id-1"}}}
INVALID_NAME = "NonAdminRestore spec.restoreSpec.backupName is invalid: "
RESTRICTED = "NonAdminRestore nonAdminRestore.spec.restoreSpec."


@pytest.mark.spec("NAC-015")
@pytest.mark.parametrize(
    ("spec", "backup", "text"),
    [
        ({"backupName": ""}, None, "NonAdminRestore spec.restoreSpec.backupName is not set"),
        ({"backupName": "x"}, None, f'{INVALID_NAME}NonAdminBackup.oadp.openshift.io "x" not found'),
        (
            {"backupName": "x"},
            {"status": {"phase": "BackingOff"}},
            f"{INVALID_NAME}NonAdminBackup is not ready to be restored",
        ),
        ({"backupName": "x"}, READY, ""),
        ({"scheduleName": "s"}, None, f"{RESTRICTED}scheduleName is restricted"),
        (
            {"backupName": "x", "includedNamespaces": ["shop"]},
            READY,
            f"{RESTRICTED}includedNamespaces is restricted",
        ),
        (
            {"backupName": "x", "excludedNamespaces": []},
            READY,
            f"{RESTRICTED}excludedNamespaces is restricted",
        ),
        ({"backupName": "x", "namespaceMapping": {}}, READY, f"{RESTRICTED}namespaceMapping is restricted"),
    ],
)
def test_a_restore_is_refused_with_the_reason_or_valid(spec: Spec, backup: Spec | None, text: str) -> None:
    assert restore_problem(non_admin_restore(**spec), backup, AdminSettings(), SERVER) == text


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        (["cm/shop/a", "deployments.apps/shop/web"], ""),
        (["cm/shop/a", "cm/other/a"], "is restricted, can only name objects of the namespace: shop"),
        (["persistentvolumes/pv-1"], "is restricted, can only name objects of the namespace: shop"),
        (["cm"], '"cm" names no object'),
        ([], "it names no object"),
        (["cm/shop/a"] * 2001, "names 2001 objects, at most 2000 are allowed"),
    ],
)
def test_a_restore_may_be_limited_to_objects_of_the_namespace(objects: list[str], problem: str) -> None:
    request = non_admin_restore(backupName="x")
    request["metadata"]["annotations"] = {CHOSEN_OBJECTS: json.dumps({"objects": objects})}
    found = restore_problem(request, READY, AdminSettings(), SERVER)
    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize("name", RESTORE_CASES)
def test_a_restore_that_contradicts_an_enforced_field_is_refused(name: str) -> None:
    enforced, same, different, shown = RESTORE_CASES[name]
    settings = AdminSettings(restore={name: enforced})

    def problem(**spec: Any) -> str:
        return restore_problem(non_admin_restore(backupName="x", **spec), READY, settings, SERVER)

    assert problem() == problem(**{name: same}) == ""
    if different is not None:
        text = f"the administrator has restricted spec.restoreSpec.{name} field value to {shown}"
        assert problem(**{name: different}) == text


@pytest.mark.spec("NAC-016")
def test_the_spec_of_the_restore_that_is_made() -> None:
    settings = AdminSettings(restore={"restorePVs": False})
    assert restore_spec(non_admin_restore(backupName="nightly"), READY, settings, trusted=True) == {
        "backupName": "id-1",
        "includedNamespaces": ["shop"],
        "restorePVs": False,
        "excludedResources": [*GUARDED_KINDS, "volumesnapshotclasses"],
    }


def test_what_the_administrator_allows_is_not_excluded_from_the_own_location_only() -> None:
    settings = AdminSettings(restorable_resources=("rolebindings.rbac.authorization.k8s.io", "limitranges"))

    trusted = restore_spec(non_admin_restore(backupName="nightly"), READY, settings, trusted=True)[
        "excludedResources"
    ]
    own = restore_spec(non_admin_restore(backupName="nightly"), READY, settings, trusted=False)[
        "excludedResources"
    ]

    assert set(GUARDED_KINDS) - set(trusted) == {"rolebindings", "limitranges"}
    assert set(GUARDED_KINDS) <= set(own)


# --- Locations ------------------------------------------------------------------------------------------


def non_admin_location(**spec: Any) -> Spec:
    given = {
        "provider": "aws",
        "objectStorage": {"bucket": "mine"},
        "credential": {"name": "keys", "key": "cloud"},
        **spec,
    }
    return {"metadata": {"name": "mine", "namespace": "a"}, "spec": {"backupStorageLocationSpec": given}}


def located(settings: AdminSettings | None = None, **spec: Any) -> str:
    return location_problem(non_admin_location(**spec), settings or AdminSettings(), SERVER)


TOO_LONG = (
    "NABSL spec.backupStorageLocationSpec.backupSyncPeriod ({}) can not be greater or equal "
    "non admin backupSyncPeriod (2m0s)"
)


@pytest.mark.parametrize("setting", ["signing.keySecret", "signing.signer", "signing.keyFile"])
def test_a_tenant_cannot_have_the_server_sign_with_a_key_that_only_the_administrator_may_name(
    setting: str,
) -> None:
    # What the server signs with its own key would be believed in the administrator's locations.
    config = {"region": "r", setting: "main-signing-key"}
    assert f"config is restricted, can not contain '{setting}'" in located(config=config)

    prescribed = AdminSettings(location={"config": config})
    assert located(prescribed) == ""


@pytest.mark.spec("NAC-017")
def test_a_location_is_refused_with_the_reason_or_valid() -> None:
    prefix = "NonAdminBackupStorageLocation spec.bslSpec.credential"
    assert located() == ""
    assert located(default=True) == "NonAdminBackupStorageLocation cannot be used as a default BSL"
    assert located(credential=None) == f"{prefix} is not set"
    unnamed = f"{prefix}.name or spec.bslSpec.credential.key is not set"
    assert located(credential={"key": "cloud"}) == unnamed
    assert secret_problem(non_admin_location(), None, AdminSettings()) == (
        'BSL credentials secret not found: Secret "keys" not found'
    )
    assert secret_problem(non_admin_location(), {"data": {"cloud": KEYS}}, AdminSettings()) == ""
    assert located(backupSyncPeriod="2m") == TOO_LONG.format("2m0s")
    assert located(backupSyncPeriod="1m59s") == ""
    assert located(AdminSettings(velero_sync_period=Duration.minutes(2))) == TOO_LONG.format("2m0s")
    assert located(AdminSettings(sync_period=Duration()), backupSyncPeriod="9h") == ""
    assert located(AdminSettings(), backupSyncPeriod="-1s").endswith(".backupSyncPeriod can not be negative")


@pytest.mark.spec("NAC-018")
def test_an_enforced_bucket_forbids_a_prefix() -> None:
    settings = AdminSettings(location={"objectStorage": {"bucket": "all"}})
    assert located(settings, objectStorage={"bucket": "all", "prefix": "x"}) == (
        "the administrator has restricted spec.backupStorageLocationSpec.objectStorage field value(s) to: "
        "bucket: all, prefix: , caCert: "
    )
    assert located(settings, objectStorage={"bucket": "all"}) == ""


def test_an_enforced_map_is_shown_in_order() -> None:
    settings = AdminSettings(location={"config": {"s3Url": "http://x", "region": "eu"}})
    assert located(settings, config={"region": "us"}) == (
        "the administrator has restricted spec.backupStorageLocationSpec.config field to: "
        "region: eu, s3Url: http://x"
    )


@pytest.mark.spec("NAC-019")
def test_a_prefix_that_leaves_the_namespace_is_refused() -> None:
    for given, made in (("", "a"), ("foo", "a/foo")):
        assert located(objectStorage={"bucket": "b", "prefix": given}) == ""
        spec = location_spec(
            non_admin_location(objectStorage={"bucket": "b", "prefix": given}), AdminSettings(), "id-1"
        )
        assert spec["objectStorage"]["prefix"] == made
        assert spec["credential"] == {"name": "id-1", "key": "cloud"}
    for given in ("../b", "/x", "x//y", ".", "x/", "x/../y", "a\nb", "a\\b"):
        assert not is_plain_prefix(given)
        assert "prefix can not be used" in located(objectStorage={"bucket": "b", "prefix": given})


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "localhost",
        "a.localhost.",
        "[::1]",
        "169.254.169.254",
        "[::ffff:10.0.0.1]",
        "10.0.0.1",
        "192.168.3.4",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "[fd00:ec2::254]",
        "0",
        "[64:ff9b::a9fe:a9fe]",
    ],
)
@pytest.mark.parametrize("key", ["s3Url", "publicUrl"])
def test_an_internal_endpoint_is_refused_unless_allowed(host: str, key: str) -> None:
    config = {key: f"http://{host}:9000"}
    assert f"config.{key} can not be used" in located(config=config)
    assert "allowedEndpoints" in located(config=config)
    everything = ("0.0.0.0/0", "::/0", "localhost", "metadata.google.internal")
    assert located(AdminSettings(allowed_endpoints=everything), config=config) == ""


def test_an_endpoint_that_is_enforced_is_allowed() -> None:
    settings = AdminSettings(
        location={"config": {"s3Url": "http://10.1.1.1:9000"}}, allowed_endpoints=("a.b",)
    )
    assert located(settings, config={"s3Url": "http://10.1.1.1:9000"}) == ""
    assert settings.endpoints() == ("a.b", "10.1.1.1")

"""The administrator's settings. (docs/spec: NAC 2)"""

from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.nonadmin.settings.admin import AdminSettings, SettingsError, read_settings
from pinnace.nonadmin.settings.source import SettingsFlags, SettingsSource
from pinnace.nonadmin.specs.location import location_problem


def read(**settings: Any) -> AdminSettings:
    return read_settings({"nonAdmin": settings})


@pytest.mark.spec("NAC-052")
def test_a_period_in_nanoseconds_is_read() -> None:
    args = {"velero": {"args": {"backup-sync-period": 300_000_000_000}}}
    settings = read_settings({"nonAdmin": {}, "configuration": args})
    spec = {
        "provider": "aws",
        "objectStorage": {"bucket": "b"},
        "credential": {"name": "keys", "key": "cloud"},
    }
    non_admin_location = {
        "metadata": {"namespace": "a", "name": "n"},
        "spec": {"backupStorageLocationSpec": spec},
    }
    text = location_problem(non_admin_location, settings, "velero")
    assert text.endswith("(5m0s) can not be greater or equal non admin backupSyncPeriod (2m0s)")


@pytest.mark.spec("NAC-053")
def test_periods_that_contradict_each_other_are_refused() -> None:
    assert read(garbageCollectionPeriod=0).collection_period == Duration()
    assert read(garbageCollectionPeriod="0s").sync_period == Duration.minutes(2)
    with pytest.raises(SettingsError) as caught:
        read(backupSyncPeriod="48h")
    assert str(caught.value) == (
        "DPA spec.nonAdmin.backupSyncPeriod (48h0m0s) can not be greater or equal "
        "spec.nonAdmin.garbageCollectionPeriod (24h0m0s)"
    )
    with pytest.raises(SettingsError, match=r"DPA spec.nonAdmin.backupSyncPeriod can not be negative"):
        read(backupSyncPeriod="-1s")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"enforceBackupSpec": {"storageLocation": "x"}},
            "DPA spec.nonAdmin.enforcedBackupSpec.storageLocation is non-enforceable by admins",
        ),
        (
            {"enforceBackupSpec": {"includeClusterResources": True}},
            "DPA spec.nonAdmin.enforcedBackupSpec.includeClusterResources is non-enforceable by admins "
            "as true, must be set to false if enforced by admins",
        ),
        (
            {"enforceRestoreSpec": {"namespaceMapping": {}}},
            "DPA spec.nonAdmin.enforcedRestoreSpec.namespaceMapping is non-enforceable by admins",
        ),
        ({"enforceBackupSpec": {"tll": "1h"}}, "spec.nonAdmin.enforceBackupSpec.tll is not a field"),
        ({"enforceBackupSpec": {"ttl": "1 day"}}, "spec.nonAdmin.enforceBackupSpec.ttl"),
        ({"enforceBSLSpec": {"default": True}}, "spec.nonAdmin.enforceBSLSpec.default is not a field"),
        ({"enforceBSLSpec": {"backupSyncPeriod": "5m"}}, "enforceBSLSpec.backupSyncPeriod (5m0s)"),
        ({"requireApprovalForBSL": "yes"}, "requireApprovalForBSL is neither true nor false"),
        ({"requireAproval": True}, "spec.nonAdmin.requireAproval is not a setting"),
        ({"maxUnfinishedBackups": -1}, "maxUnfinishedBackups can not be negative; 0 means no limit"),
        ({"maxUnfinishedRestores": True}, "maxUnfinishedRestores is not a whole number"),
        ({"maxUnfinishedRestores": "3"}, "maxUnfinishedRestores is not a whole number"),
        ({"allowedEndpoints": "10.0.0.0/8"}, "allowedEndpoints is not a list of texts"),
        ({"maxHookTime": "-1m"}, "maxHookTime can not be negative"),
        ({"maxHookTime": "long"}, "maxHookTime"),
        ({"allowedEndpoints": [10]}, "allowedEndpoints is not a list of texts"),
        ({"allowedEndpoints": ["10.0.0.0/99"]}, "'10.0.0.0/99' is not an address"),
        ({"enforceBSLSpec": {"config": {"s3Url": "http://[x"}}}, "config.s3Url"),
        ({"adoptFormerNamespaces": ["shop"]}, "adoptFormerNamespaces is not a map of texts"),
        ({"adoptFormerNamespaces": {"shop": None}}, "adoptFormerNamespaces is not a map of texts"),
        ({"adoptFormerNamespaces": {"shop": ""}}, "needs a name and a uid of each namespace"),
    ],
)
def test_bad_settings_name_their_field(settings: JSONObject, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(**settings)
    assert text in str(caught.value)


def config_map(text: str) -> JSONObject:
    return {"metadata": {"name": "pinnace-nonadmin"}, "data": {"settings.yaml": text}}


def test_changed_settings_are_adopted_and_invalid_ones_ignored() -> None:
    changes: list[None] = []
    source = SettingsSource(SettingsFlags(), list)
    source.on_change(lambda: changes.append(None))
    source.start(None)
    assert source() == AdminSettings()

    source.take(config_map("nonAdmin: {requireApprovalForBSL: true}"))
    assert source().require_approval
    for bad in ("nonAdmin: [", "nonAdmin: {enforceBackupSpec: 1}", "- a"):
        source.take(config_map(bad))
    assert source().require_approval
    source.take(config_map("nonAdmin: {requireApprovalForBSL: true}"))
    assert len(changes) == 1
    with pytest.raises(SettingsError):
        source.start(config_map("nonAdmin: ["))


def test_limits_and_adoptions_are_read_and_flags_take_precedence() -> None:
    document = """
        nonAdmin: {maxUnfinishedBackups: 3, maxUnfinishedRestores: 2, adoptFormerNamespaces: {shop: uid}}
    """
    source = SettingsSource(SettingsFlags(), list)
    source.start(config_map(document))
    found = source()
    assert (found.max_unfinished_backups, found.max_unfinished_restores) == (3, 2)
    assert found.hands_over("shop", "former", "uid")
    assert not found.hands_over("shop", "former", "another")
    assert not found.hands_over("blog", "former", "uid")
    source.take(config_map("nonAdmin: {}"))
    assert source() == AdminSettings()

    flags = SettingsFlags(max_unfinished_backups=0, adopted_namespaces={"*": "*"})
    source = SettingsSource(flags, list)
    source.start(config_map(document))
    assert (source().max_unfinished_backups, source().max_unfinished_restores) == (0, 2)
    assert source().hands_over("blog", "former", "another")
    with pytest.raises(SettingsError, match="maxUnfinishedRestores can not be negative"):
        SettingsSource(SettingsFlags(max_unfinished_restores=-1), list).start(None)


def test_flags_take_precedence_and_default_locations_are_checked() -> None:
    flags = SettingsFlags(require_approval=False, sync_period=Duration.minutes(3))
    location = {"metadata": {"name": "default"}, "spec": {"default": True, "backupSyncPeriod": "2m"}}
    source = SettingsSource(flags, lambda: [location])
    source.start(config_map("nonAdmin: {requireApprovalForBSL: true, backupSyncPeriod: 2m}"))
    assert not source().require_approval
    with pytest.raises(SettingsError, match="default backup storage location default"):
        SettingsSource(SettingsFlags(), lambda: [location]).start(None)

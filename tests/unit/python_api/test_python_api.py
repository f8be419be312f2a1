"""The Python API: what importing it loads, its requests, its errors."""

import asyncio
import gzip
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

import pinnace
import pinnace.plugins
from pinnace.kube.errors import ConnectionFailed
from pinnace.plugins.errors import CodePosition, PluginCallError, PluginCrashed
from pinnace.plugins.host.calls import PluginTimeout
from pinnace.python_api._running import (
    Reports,
    backup_request,
    phase_of,
    resource_modifiers,
    restore_request,
    translated,
)
from pinnace.storage.errors import StoreUnavailable
from tests.support.stores.indexed_backups import config_map, store


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import pinnace; new = set(sys.modules) - before;"
        "assert new <= {'pinnace'}, new; pinnace.Location('x'); pinnace.Cluster();"
        "assert not {'aiohttp', 'msgspec', 'pycurl', 'yaml', 'click'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_functions_stay_functions_when_the_packages_of_their_names_are_imported() -> None:
    code = (
        "import pinnace.backup.engine, pinnace.restore.engine, pinnace.doctor.examining, inspect;"
        "assert 'namespaces' in inspect.signature(pinnace.doctor).parameters;"
        "assert 'location' in inspect.signature(pinnace.backup).parameters;"
        "assert 'location' in inspect.signature(pinnace.restore).parameters"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_promised_name_is_there_and_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/python.md").read_text()
    for name in pinnace.__all__:
        assert getattr(pinnace, name) is not None
        assert f"{name}" in page, name
    with pytest.raises(AttributeError, match="has no attribute 'bakup'"):
        _ = pinnace.bakup  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        ({"included_namespaces": "shop"}, "included_namespaces must be a list of names, not the text 'shop'"),
        ({"excluded_resources": [1]}, "excluded_resources must be a list of names"),
        ({"labels": "a in b"}, "labels: couldn't parse the selector"),
    ],
)
def test_a_text_in_place_of_a_list_is_refused(selection: dict[str, Any], text: str) -> None:
    with pytest.raises(pinnace.InvalidRequest, match=text):
        backup_request("b", pinnace.Cluster(), pinnace.Selection(**selection), pinnace.BackupOptions())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StoreUnavailable("gone"), pinnace.LocationError),
        (ExceptionGroup("tasks", [ConnectionFailed("gone")]), pinnace.ClusterError),
        (PermissionError(13, "Permission denied", "/x"), pinnace.PinnaceError),
    ],
)
def test_errors_of_lower_layers_become_errors_of_the_api(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected), translated():
        raise error


def test_a_defect_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), translated():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"provider": "aws", "bucket": "b"}, "One of --secret-file or --no-secret is required"),
        ({"provider": "aws", "no_secret": True}, "--bucket is required"),
        ({"provider": "x", "bucket": "b", "no_secret": True}, "does not know the provider x"),
    ],
)
def test_an_installation_that_cannot_be_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(pinnace.InvalidRequest, match=text):
        pinnace.install(pinnace.InstallOptions(**options), cluster=pinnace.Cluster(kubeconfig="/nowhere"))


def test_a_doctor_without_a_cluster_says_so_in_a_finding(tmp_path: Path) -> None:
    cluster = pinnace.Cluster(kubeconfig="/nowhere")

    diagnosis = pinnace.doctor(pinnace.Location(tmp_path), cluster=cluster, namespaces=["shop"])

    assert not diagnosis.is_healthy
    found = {str(finding.code): str(finding.level) for finding in diagnosis.findings}
    assert found["kubeconfig-unusable"] == "PROBLEM"
    assert found["ok"] == "OK"
    assert "`pinnace backup create NAME` makes one" in {finding.remedy for finding in diagnosis.findings}
    with pytest.raises(pinnace.InvalidRequest, match="namespaces: "):
        pinnace.doctor(namespaces=["Shop!"], cluster=cluster)


def test_a_missing_folder_is_an_error_and_not_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(pinnace.LocationError):
        pinnace.list_backups(pinnace.Location(tmp_path / "missing"))


def test_an_url_with_credentials_is_refused_and_not_repeated() -> None:
    location = pinnace.Location("s3://key:hunter2@bucket")

    with pytest.raises(pinnace.LocationError) as caught:
        pinnace.list_backups(location)

    assert "hunter2" not in str(caught.value) + repr(location)


async def test_a_script_function_in_a_running_loop_names_the_one_to_await(tmp_path: Path) -> None:
    with pytest.raises(pinnace.InvalidRequest, match=r"await pinnace\.list_backups_async\(\)"):
        pinnace.list_backups(pinnace.Location(tmp_path))


async def test_an_error_of_the_progress_callback_is_raised_after_the_run() -> None:
    calls = []

    def callback(progress: pinnace.Progress) -> None:
        calls.append(progress)
        raise KeyError("mine")

    reports = Reports(callback)
    await reports.publish(10, 1)
    await reports.publish(10, 2)
    result = pinnace.BackupResult(name="b", phase=pinnace.Phase.COMPLETED, items=1, errors=0, warnings=0)

    assert calls == [pinnace.Progress(done=1, total=10)]
    with pytest.raises(KeyError, match="mine"):
        reports.check(result)


def test_a_run_that_ended_failed_is_an_exception_with_its_result() -> None:
    result = pinnace.BackupResult(
        name="b", phase=pinnace.Phase.FAILED, items=0, errors=1, warnings=0, failure_reason="disk full"
    )

    with pytest.raises(pinnace.RunFailed, match="backup b failed: disk full") as caught:
        Reports(None).check(result)

    assert caught.value.result is result


_RESULTS: list[Any] = [
    pinnace.BackupResult(name="b", phase=pinnace.Phase.FAILED, items=1, errors=1, warnings=0),
    pinnace.RestoreResult(name="r", backup="b", phase=pinnace.Phase.FAILED, items=1, errors=1, warnings=0),
]


def _examples(kind: type[BaseException]) -> list[BaseException]:
    if issubclass(kind, pinnace.RunFailed):
        return [kind(result) for result in _RESULTS]
    if issubclass(kind, PluginTimeout):
        return [kind("example.io/p", "Execute", 3.0)]
    if issubclass(kind, PluginCrashed):
        return [kind("example.io/p", "exit code 3", was_killed=True)]
    if issubclass(kind, PluginCallError):
        origin = CodePosition(file="a.py", line=3, function="f")
        return [kind("example.io/p", "it broke", origin=origin)]
    return [kind("a text")]


def _public_errors() -> set[type[BaseException]]:
    """Every error that the API or the package for authors of plugins names, and what is derived from it."""
    named = [getattr(module, name) for module in (pinnace, pinnace.plugins) for name in module.__all__]
    errors = [each for each in named if isinstance(each, type) and issubclass(each, BaseException)]
    for kind in errors:
        errors += kind.__subclasses__()
    return {kind for kind in errors if kind.__module__.startswith("pinnace.")}


@pytest.mark.found("P4")
@pytest.mark.parametrize("kind", sorted(_public_errors(), key=str))
def test_a_public_error_comes_back_from_another_process_as_it_was(kind: type[BaseException]) -> None:
    for error in _examples(kind):
        found = pickle.loads(pickle.dumps(error))

        assert (type(found), str(found), vars(found)) == (kind, str(error), vars(error))


def test_a_phase_of_another_version_becomes_unknown() -> None:
    assert (phase_of("Completed"), phase_of("Finalizing")) == (pinnace.Phase.COMPLETED, pinnace.Phase.UNKNOWN)


def test_filters_by_scope_and_alternative_selectors_reach_the_backup() -> None:
    selection = pinnace.Selection(any_of_labels=["a=1", "b in (2,3)"])
    scoped = pinnace.ScopedResources(
        included_cluster=["storageclasses"],
        excluded_cluster=["nodes"],
        included_namespaced=["pods"],
        excluded_namespaced=["secrets"],
    )

    made = backup_request(
        "b", pinnace.Cluster(), selection, pinnace.BackupOptions(scoped_resources=scoped)
    ).spec

    assert made.included_cluster_scoped_resources == ["storageclasses"]
    assert made.excluded_cluster_scoped_resources == ["nodes"]
    assert made.included_namespace_scoped_resources == ["pods"]
    assert made.excluded_namespace_scoped_resources == ["secrets"]
    assert [each.match_labels for each in made.or_label_selectors] == [{"a": "1"}, {}]


def test_an_empty_alternative_selector_is_refused() -> None:
    selection = pinnace.Selection(any_of_labels=["a=1", ""])
    with pytest.raises(pinnace.InvalidRequest, match="any_of_labels must not contain an empty selector"):
        restore_request("b", pinnace.Cluster(), selection, pinnace.RestoreOptions())


def test_options_for_existing_objects_and_lost_data_reach_the_restore() -> None:
    options = pinnace.RestoreOptions(
        existing_resources=pinnace.ExistingResources.RECREATE, without_volume_data=True
    )

    made = restore_request("b", pinnace.Cluster(), pinnace.Selection(), options)

    assert made.spec.existing_resource_policy == "recreate"
    assert made.metadata.annotations == {"pinnace.io/without-volume-data": "true"}
    wrong: Any = "replace"
    with pytest.raises(pinnace.InvalidRequest, match="must be one of none, update, recreate, not 'replace'"):
        restore_request(
            "b", pinnace.Cluster(), pinnace.Selection(), pinnace.RestoreOptions(existing_resources=wrong)
        )


WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"replicas": 3},
}
SCALE_DOWN = [{"op": "replace", "path": "/spec/replicas", "value": 1}]


@pytest.mark.parametrize(
    ("conditions", "replicas"),
    [
        ({}, 1),
        ({"namespaces": ["sh*"]}, 1),
        ({"namespaces": ["other"]}, 3),
        ({"name_pattern": "^we"}, 1),
        ({"name_pattern": "^eb"}, 3),
        ({"labels": "app=web"}, 1),
        ({"labels": "app=cart"}, 3),
        ({"matches": {"/spec/replicas": 3}}, 1),
        ({"matches": {"/spec/replicas": "3"}}, 3),
    ],
)
def test_a_modifier_changes_the_objects_that_meet_all_its_conditions(
    conditions: dict[str, Any], replicas: int
) -> None:
    modifier = pinnace.ResourceModifier(resources="deployments.apps", json_patch=SCALE_DOWN, **conditions)
    modifiers = resource_modifiers(pinnace.RestoreOptions(modifiers=[modifier]))

    assert modifiers is not None
    assert modifiers.apply("deployments.apps", "shop", WEB).item["spec"] == {"replicas": replicas}


@pytest.mark.parametrize("kind", ["merge_patch", "strategic_patch"])
def test_a_merge_patch_is_applied(kind: str) -> None:
    patch: dict[str, Any] = {kind: {"spec": {"paused": True}}}
    given = pinnace.ResourceModifier(resources="deployments.apps", **patch)
    modifiers = resource_modifiers(pinnace.RestoreOptions(modifiers=[given]))

    assert modifiers is not None
    assert modifiers.apply("deployments.apps", "shop", WEB).item["spec"] == {"replicas": 3, "paused": True}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "rule 1: it must have exactly one of json_patch"),
        ({"json_patch": SCALE_DOWN, "merge_patch": {"a": 1}}, "rule 1: it must have exactly one of"),
        ({"json_patch": [{"op": "swap", "path": "/a"}]}, "rule 1: op 'swap' is not one of"),
        ({"json_patch": [{"op": "add", "path": "/a"}]}, "rule 1: op add of /a has no value"),
        ({"json_patch": [{"op": "remove", "path": "a"}]}, "rule 1: "),
        ({"json_patch": [{"op": "move", "path": "/a"}]}, "rule 1: None is not a JSON pointer"),
        ({"json_patch": [{"op": "add", "path": "/a", "valeu": 1}]}, "unknown key 'valeu'"),
        ({"merge_patch": {"a": object()}}, "rule 1: a value cannot be written as JSON"),
        ({"merge_patch": {"a": 1}, "name_pattern": "("}, "rule 1: .*is not a regular expression"),
        ({"merge_patch": {"a": 1}, "labels": "a in b"}, "rule 1: labels: couldn't parse the selector"),
        ({"merge_patch": {"a": 1}, "resources": ""}, "rule 1: resources is empty"),
    ],
)
def test_a_modifier_that_cannot_be_used_is_refused_before_the_restore(
    fields: dict[str, Any], text: str
) -> None:
    given = pinnace.ResourceModifier(**{"resources": "pods", **fields})
    with pytest.raises(pinnace.InvalidRequest, match=f"^modifiers: .*{text}"):
        resource_modifiers(pinnace.RestoreOptions(modifiers=[given]))


async def test_a_verification_without_a_cluster_names_bad_checks(tmp_path: Path) -> None:
    directory = await asyncio.to_thread(store, tmp_path, "b1", [config_map("a")])
    empty = gzip.compress(b"[]", mtime=0)
    for name in ("b1-volumesnapshots.json.gz", "b1-logs.gz"):
        (directory / name).write_bytes(empty)
    location = pinnace.Location(tmp_path)

    sound = await pinnace.verify_async("b1", location)
    (directory / "b1.tar.gz").write_bytes(b"damaged")
    damaged = await pinnace.verify_async("b1", location)

    assert (sound.is_sound, {check.result for check in sound.checks}) == (True, {pinnace.CheckResult.OK})
    (bad,) = [check for check in damaged.checks if check.result == pinnace.CheckResult.BAD]
    assert (damaged.is_sound, bad.name) == (False, "tarball")


async def test_a_verification_of_snapshots_without_a_cluster_names_them(tmp_path: Path) -> None:
    directory = await asyncio.to_thread(store, tmp_path, "b1", [config_map("a")])
    metadata = directory / "velero-backup.json"
    noted = orjson.loads(metadata.read_bytes())
    noted["status"] |= {"volumeSnapshotsAttempted": 1, "volumeSnapshotsCompleted": 1}
    metadata.write_bytes(orjson.dumps(noted))
    snapshot = {
        "spec": {"location": "x"},
        "status": {"providerSnapshotID": "snap-1", "phase": "Completed"},
    }
    (directory / "b1-volumesnapshots.json.gz").write_bytes(gzip.compress(orjson.dumps([snapshot])))

    found = await pinnace.verify_async("b1", pinnace.Location(tmp_path))

    (check,) = [each for each in found.checks if each.result == pinnace.CheckResult.NOT_CHECKED]
    assert check.details == "1: snapshot snap-1: no cluster was given"
    assert found.is_sound


@pytest.mark.parametrize(
    ("backup", "options", "text"),
    [
        ("nosuch", pinnace.VerifyOptions(), "the location has no backup 'nosuch'"),
        ("nosuch", pinnace.VerifyOptions(read_data="all"), "read_data: 'all' is not a share"),
    ],
)
def test_wrong_options_of_a_verification_are_refused(
    tmp_path: Path, backup: str, options: pinnace.VerifyOptions, text: str
) -> None:
    with pytest.raises(pinnace.InvalidRequest, match=text):
        pinnace.verify(backup, pinnace.Location(tmp_path), options=options)

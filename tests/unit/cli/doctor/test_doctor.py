"""`doctor` as a user runs it, over a cluster in memory."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.objects import JSONObject, dump_json
from pinnace.api.values.times import format_time
from pinnace.cli.main import run
from pinnace.doctor import definitions, looking, server
from pinnace.doctor.findings import Level
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import ConfigError, Forbidden, NotFound
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    SCHEDULES,
    APIResource,
)
from pinnace.kube.transport.config import ClusterConfig
from tests.unit.cli.cluster import ServedCluster, connected

Spec = Mapping[str, Any]
REQUESTED = "pinnace.io/validation-requested"
OURS = [{"name": "pinnace.io/filesystem", "kind": "ObjectStore"}]


class ReviewingCluster(ServedCluster):
    """Answers access reviews.

    Attributes:
        refused: the verbs that are not allowed on config maps.
        who: the user, as the API server knows them.
        looked: the phase that the server writes when it is asked to look at a location; None: it does not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.reviewed: list[Spec] = []
        self.who = "eve"
        self.looked: str | None = None

    async def request(self, method: str, path: str, **sent: Any) -> bytes:
        assert method == "POST"
        if path.endswith("/selfsubjectreviews"):
            who = {"userInfo": {"username": self.who}}
            return dump_json(
                {"metadata": {"creationTimestamp": format_time(SYSTEM_CLOCK.now())}, "status": who}
            )
        spec = json.loads(sent["body"])["spec"]
        self.reviewed.append(spec)
        attributes = spec["resourceAttributes"]
        refused = attributes["verb"] in self.refused and attributes["resource"] in ("*", "configmaps")
        return dump_json({"status": {"allowed": not refused}})

    async def patch(self, resource: APIResource, name: str, *arguments: Any, **named: Any) -> JSONObject:
        """A server looks at a location that it is asked to look at, and finds what `looked` says."""
        patched = await super().patch(resource, name, *arguments, **named)
        found = self.stored(resource, name)
        if self.looked is not None and found["metadata"].get("annotations", {}).pop(REQUESTED, None):
            found["status"] = {"phase": self.looked, "message": "the bucket is gone"}
        return patched


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ReviewingCluster:
    cluster = ReviewingCluster()
    connected(monkeypatch, tmp_path, cluster)
    config = ClusterConfig(server="https://cluster:6443", user="user 'eve' of context 'test'")
    monkeypatch.setattr("pinnace.kube.config.load_config", lambda *_, **__: config)

    async def discovered(_client: object) -> Discovery:
        return _Served()  # type: ignore[return-value]

    monkeypatch.setattr(Discovery, "load", discovered)
    cluster.add(NAMESPACES, "velero")
    return cluster


class _Served:
    resources = (CONFIGMAPS, NAMESPACES)


def report(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The exit code, and the findings by subject."""
    code = run([*words, "doctor", "-o", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["healthy"] is (code == 0)
    found: dict[str, list[dict[str, str]]] = {}
    for finding in printed["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return code, found


def test_a_location_is_written_read_and_left_as_it_was(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()

    code, found = report(capsys, "--location", str(folder))

    assert code == 0
    assert found["locations"][0]["message"].endswith("can be listed, written, read and deleted")
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert {finding["level"] for finding in found["rights"]} == {"OK"}
    assert "server" not in found
    assert cluster.writes() == []


def test_a_location_that_cannot_be_used_is_a_problem_and_the_cluster_is_checked_too(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "photos" / "holidays").mkdir(parents=True)
    (tmp_path / "photos" / "holidays" / "beach.jpg").touch()

    code, found = report(capsys, "--location", str(tmp_path / "photos"))

    assert code == 1
    (finding,) = found["locations"]
    assert finding["level"] == "PROBLEM"
    assert "invalid top-level directories: [holidays]" in finding["message"]
    assert found["clocks"][0]["level"] == "OK"


def test_a_folder_inside_of_a_location_is_a_problem(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "backups" / "nightly"
    folder.mkdir(parents=True)
    (folder / "velero-backup.json").touch()

    code, found = report(capsys, "--location", str(folder))

    assert code == 1
    (finding,) = found["locations"]
    assert finding["level"] == "PROBLEM"
    assert finding["message"].endswith(
        f"the folder of backup nightly, inside of a location: write --location {tmp_path}"
    )
    assert [path.name for path in folder.iterdir()] == ["velero-backup.json"]
    assert cluster.writes() == []


def test_locks_in_a_location_are_a_warning(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    locks = tmp_path / "backups" / "restic" / "shop" / "locks"
    locks.mkdir(parents=True)
    (locks / "0a1b").write_bytes(b"encrypted")

    code, found = report(capsys, "--location", str(tmp_path / "backups"))

    assert code == 0
    assert found["repositories"][0]["level"] == "WARNING"
    assert "shop (1)" in found["repositories"][0]["message"]


def test_each_right_that_is_missing_is_named(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster.refused = {"patch"}

    code = run(["--location", str(tmp_path), "doctor", "--include-namespaces", "shop"])

    shown = capsys.readouterr().out
    assert code == 1
    assert "lacks rights that a restore of shop needs: patch configmaps in shop" in shown
    assert "this user may do what a backup of shop needs" in shown


def test_without_a_kubeconfig_the_location_is_still_checked(
    cluster: ReviewingCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def nothing(*_: object, **__: object) -> ClusterConfig:
        raise ConfigError("no kubeconfig found")

    monkeypatch.setattr("pinnace.kube.config.load_config", nothing)
    (tmp_path / "b").mkdir()

    code, found = report(capsys, "--location", str(tmp_path / "b"))

    assert code == 1
    assert found["kubeconfig"][0]["message"] == "no kubeconfig found"
    assert found["locations"][0]["level"] == "OK"


def test_a_healthy_server_has_no_problems(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plugins, cluster.looked = OURS, "Available"
    for crd in crd_manifests():
        cluster.add(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"], spec=crd["spec"])
    template = {"spec": {"serviceAccountName": "velero"}}
    cluster.add(DEPLOYMENTS, "velero", spec={"template": template}, status={"readyReplicas": 1})
    cluster.add(LEASES, "pinnace-server", spec={"holderIdentity": "pod-1"})
    cluster.add(
        BACKUP_STORAGE_LOCATIONS,
        "main",
        spec={"provider": "filesystem", "default": True, "config": {"path": "/backups"}},
        status={"phase": "Available"},
    )
    cluster.add(SCHEDULES, "nightly", spec={"schedule": "@daily", "template": {"storageLocation": "main"}})

    code, found = report(capsys)

    assert (code, [finding["level"] for finding in found["server"]][:2]) == (0, ["OK", "OK"])
    assert found["definitions"][0]["level"] == "OK"
    assert "a folder of the server's machine" in found["locations"][0]["message"]
    assert found["schedules"][0]["message"] == "schedule nightly will run"
    assert {spec.get("user") for spec in cluster.reviewed} == {"system:serviceaccount:velero:velero"}
    assert [call[:2] for call in cluster.writes()] == [
        ("create", "serverstatusrequests"),
        ("patch", "backupstoragelocations"),
    ]


def add_location(cluster: ReviewingCluster, **status: str) -> None:
    spec = {"provider": "filesystem", "default": True, "config": {"path": "/backups"}}
    cluster.add(BACKUP_STORAGE_LOCATIONS, "main", spec=spec, status={"phase": "Available", **status})


@pytest.mark.found("op-74", "op-119")
def test_the_server_looks_at_a_location_that_was_available(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plugins, cluster.looked = OURS, "Unavailable"
    add_location(cluster)

    code, found = report(capsys)

    assert code == 1
    (finding,) = found["locations"]
    assert (finding["level"], finding["code"]) == ("PROBLEM", "location-unavailable")
    assert finding["message"] == "the server cannot use main, it looked just now: the bucket is gone"


@pytest.mark.found("op-74")
def test_a_server_that_does_not_look_in_time_leaves_no_all_clear_and_no_request(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(looking, "POLL_SECONDS", 0.01)
    cluster.plugins = OURS
    add_location(cluster)

    code, found = report(capsys)

    assert code == 1
    (finding,) = found["locations"]
    assert finding["code"] == "location-not-confirmed"
    assert "the server was asked to look and did not within 0.05 seconds" in finding["message"]
    annotations = cluster.stored(BACKUP_STORAGE_LOCATIONS, "main")["metadata"].get("annotations") or {}
    assert REQUESTED not in annotations


@pytest.mark.found("op-74")
def test_the_next_look_of_a_velero_server_is_waited_for(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def later(_seconds: float) -> None:
        found = cluster.stored(BACKUP_STORAGE_LOCATIONS, "main")
        found["status"] = {"phase": "Available", "lastValidationTime": "2040-01-01T00:00:00Z"}

    monkeypatch.setattr(looking, "_pause", later)
    add_location(cluster, lastValidationTime=format_time(SYSTEM_CLOCK.now()))

    _, found = report(capsys)

    (finding,) = found["locations"]
    assert finding["level"] == "OK"
    assert "the server can use main, it looked just now" in finding["message"]


@pytest.mark.found("op-75")
def test_a_secret_that_a_location_names_and_that_is_gone_is_a_problem(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plugins, cluster.looked = OURS, "Available"
    spec = {"provider": "aws", "default": True, "credential": {"name": "my-keys", "key": "cloud"}}
    cluster.add(BACKUP_STORAGE_LOCATIONS, "main", spec=spec, status={"phase": "Available"})

    code, found = report(capsys)

    assert code == 1
    (finding,) = found["locations"]
    assert (finding["level"], finding["code"]) == ("PROBLEM", "location-secret-missing")
    assert "Secret my-keys, which it names, does not exist in namespace velero" in finding["message"]


@pytest.mark.found("op-76")
def test_failed_backups_and_schedules_without_a_server_are_problems(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.plugins = None
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.01)
    cluster.add(SCHEDULES, "nightly", spec={"schedule": "@daily"})
    cluster.add(BACKUPS, "b", status={"phase": "Failed", "failureReason": "no room"})

    code, found = report(capsys)

    assert code == 1
    assert [each["code"] for each in found["schedules"]] == ["schedules-without-server"]
    assert [each["code"] for each in found["backups"]] == ["backups-failed"]
    assert found["backups"][0]["remedy"].startswith("`pinnace backup logs b`")


@pytest.mark.found("op-47")
def test_a_user_without_credentials_is_the_only_problem(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.who = "system:anonymous"

    code, found = report(capsys)

    assert (code, set(found)) == (1, {"credentials"})
    (finding,) = found["credentials"]
    assert (finding["level"], finding["code"]) == ("PROBLEM", "credentials-missing")
    assert "user 'eve' of context 'test' has no token, certificate or password" in finding["message"]


def test_a_cluster_without_a_server_says_what_is_missing(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.plugins = None
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.01)

    code, found = report(capsys)

    assert code == 1
    assert found["server"][0]["message"].endswith("it has no Deployment velero")
    assert found["definitions"][0]["message"] == "no definition of velero.io is installed"
    assert found["locations"][0]["message"] == "there is no backup storage location"


def test_a_namespace_that_does_not_exist_is_the_problem_and_not_what_it_lacks(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = report(capsys, "-n", "velro")

    assert code == 1
    assert [one["message"] for one in found["server"]] == [
        "namespace velro does not exist; did you mean velero?"
    ]
    assert "definitions" in found
    assert {"locations", "schedules", "node agents"}.isdisjoint(found)


def test_a_command_of_a_remedy_can_be_pasted(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(SCHEDULES, "nightly", spec={"schedule": "@daily", "paused": True})

    _, found = report(capsys, "-n", "velero")

    assert found["schedules"][0]["remedy"] == "`pinnace schedule unpause nightly -n velero` resumes it"


def test_levels_are_coloured_where_colour_is_wanted(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLICOLOR_FORCE", "1")

    run(["doctor"])

    assert "\x1b[32mOK      \x1b[0m kubeconfig" in capsys.readouterr().out


def test_a_kind_that_is_not_served_is_skipped_with_the_reason_once(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    error = NotFound(404, message="404 page not found")
    cluster.refuse("list", "schedules", error)

    _, found = report(capsys)

    assert found["schedules"][0]["level"] == "SKIPPED"
    assert found["schedules"][0]["message"] == f"not checked: {error}"


def test_a_forbidden_check_is_skipped_with_the_reason(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    error = Forbidden(403, reason="Forbidden", message="eve cannot list schedules")
    cluster.refuse("list", "schedules", error)

    _, found = report(capsys)

    assert found["schedules"] == [
        {
            "check": "schedules",
            "level": "SKIPPED",
            "code": "not-permitted",
            "message": f"not checked: {error}",
            "remedy": "ask with an account that may read this",
        }
    ]


NO_RIGHT = Forbidden(403, reason="Forbidden", message="eve may not")
READ = (
    ("list", "csidrivers"),
    ("get", "namespaces"),
    ("list", "customresourcedefinitions"),
    ("get", "deployments"),
    ("get", "daemonsets"),
    ("list", "backupstoragelocations"),
    ("list", "schedules"),
    ("list", "backups"),
    ("list", "backuprepositories"),
    ("list", "resticrepositories"),
)


def test_without_any_right_nothing_is_checked_and_that_is_a_problem(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb, plural in READ:
        cluster.refuse(verb, plural, NO_RIGHT)

    code, found = report(capsys)

    assert code == 1
    assert [finding["level"] for finding in found["schedules"] + found["server"]] == ["SKIPPED", "SKIPPED"]
    (access,) = found["access"]
    assert access["level"] == "PROBLEM"
    assert access["message"] == "nothing was checked about the server in namespace velero: eve may not"
    assert "the check server alone needs to get deployments.apps, create and get" in access["remedy"]


def test_one_check_that_could_be_made_is_enough_and_the_others_are_counted(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb, plural in READ[:-2]:
        cluster.refuse(verb, plural, NO_RIGHT)

    assert run(["doctor"]) == 0

    shown = capsys.readouterr().out
    assert "access" not in shown
    assert "10 skipped (9 for lack of rights).\n" in shown


def test_without_a_server_a_user_whose_rights_cannot_be_asked_for_has_a_problem(
    cluster: ReviewingCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    async def refused(_client: object) -> Discovery:
        raise NO_RIGHT

    monkeypatch.setattr(Discovery, "load", refused)

    code, found = report(capsys, "--location", str(tmp_path))

    assert code == 1
    assert found["access"][0]["message"] == "nothing was checked about the cluster: eve may not"


def definition_of_locations(*, apart: bool) -> list[JSONObject]:
    found = next(crd for crd in crd_manifests() if crd["spec"]["names"]["kind"] == "BackupStorageLocation")
    if not apart:  # as Velero 1.18 has it
        for version in found["spec"]["versions"]:
            version.pop("subresources")
    return [found]


@pytest.mark.found("V33")
@pytest.mark.parametrize(
    ("image", "apart", "is_told"),
    [
        ("velero/velero:v1.18.1", True, True),
        ("registry:5000/mirror/velero@sha256:0", True, True),
        ("velero/velero:v1.18.1", False, False),
        ("ghcr.io/pinnace/pinnace:1", True, False),
        ("", True, False),
    ],
    ids=["velero", "mirrored", "with its own definitions", "pinnace", "no server"],
)
def test_a_velero_server_that_cannot_write_the_status_of_its_locations_is_told_apart(
    image: str, apart: bool, is_told: bool
) -> None:
    findings = definitions.judge_for_velero(definition_of_locations(apart=apart), image)

    assert [finding.level for finding in findings] == ([Level.PROBLEM] if is_told else [])
    assert all("velero install --crds-only" in finding.remedy for finding in findings)


@pytest.mark.found("V33")
def test_the_doctor_looks_at_the_image_of_the_server(
    cluster: ReviewingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for crd in crd_manifests():
        cluster.add(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"], spec=crd["spec"])
    containers = [{"name": "velero", "image": "velero/velero:v1.18.1"}]
    spec = {"template": {"spec": {"containers": containers}}}
    cluster.add(DEPLOYMENTS, "velero", spec=spec, status={"readyReplicas": 1})

    code, found = report(capsys)

    assert code == 1
    assert any(
        "the server is Velero (velero/velero:v1.18.1)" in each["message"] for each in found["definitions"]
    )


@pytest.mark.found("CF5")
@pytest.mark.usefixtures("cluster")
def test_a_namespace_that_does_not_exist_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").mkdir()
    words = ["--location", str(tmp_path / "b"), "doctor", "-o", "json", "--include-namespaces"]

    assert run([*words, "velero"]) == 0
    capsys.readouterr()
    assert run([*words, "velero,velreo"]) == 1

    found = json.loads(capsys.readouterr().out)["findings"]
    (problem,) = [each for each in found if each["level"] == Level.PROBLEM]
    assert problem["message"] == "namespace velreo does not exist; did you mean velero?"


@pytest.mark.found("CF5")
def test_a_namespace_that_may_not_be_read_is_not_passed(
    cluster: ReviewingCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").mkdir()
    cluster.refuse("get", "namespaces", Forbidden(403, reason="Forbidden", message="not yours"))

    run(["--location", str(tmp_path / "b"), "doctor", "--include-namespaces", "velero"])

    assert "not checked: not yours" in capsys.readouterr().out


@pytest.mark.found("CF5")
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("name", ["a b", "[a", "A", "shop*", "a.b"])
def test_what_cannot_be_the_name_of_a_namespace_is_refused(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--include-namespaces", name]) == 1
    shown = capsys.readouterr()
    assert "--include-namespaces: invalid namespace" in shown.err
    assert shown.out == ""


@pytest.mark.found("CF5")
@pytest.mark.usefixtures("cluster")
def test_the_scope_that_a_server_does_not_have_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "--include-namespaces", "velero"])

    assert "--include-namespaces is not used: a server needs its rights in the whole cluster" in (
        capsys.readouterr().out
    )

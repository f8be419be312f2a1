"""The findings of the doctor about given facts: pure, one table for each subject."""

import base64
import json
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pinnace.api.definitions.crds import crd_manifests
from pinnace.doctor import (
    backups,
    clocks,
    credentials,
    definitions,
    locations,
    repositories,
    rights,
    schedules,
    server,
    snapshots,
)
from pinnace.doctor.cloud_credentials import trouble_of
from pinnace.doctor.findings import Finding, Level, listed
from pinnace.doctor.looking import SeenLocation
from pinnace.kube.errors import KubeError, NotSent, Unauthorized
from pinnace.kube.resources import CONFIGMAPS, EVENTS, NAMESPACES
from pinnace.kube.transport.config import ClusterConfig
from pinnace.notices.codes import Code

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def seen(findings: list[Finding]) -> list[tuple[Level, str]]:
    """Level and text of findings; each one that is not OK has a remedy."""
    for finding in findings:
        assert finding.remedy or finding.level in (Level.OK, Level.SKIPPED), finding
    return [(finding.level, finding.text) for finding in findings]


def test_many_names_are_cut() -> None:
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"


# --- Credentials ----------------------------------------------------------------------------------------


def token(claims: dict[str, Any]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{body}.signature"


@pytest.mark.parametrize(
    ("text", "expiry"),
    [
        (token({"exp": 1_772_366_400}), datetime.fromtimestamp(1_772_366_400, UTC)),
        (token({}), None),
        (token({"exp": "soon"}), None),
        (token({"exp": 10**30}), None),
        ("a.!!!.c", None),
        ("an-opaque-token", None),
    ],
)
def test_the_expiry_of_a_token_is_read(text: str, expiry: datetime | None) -> None:
    assert credentials.token_expiry(text) == expiry


@pytest.mark.parametrize(
    ("what", "left", "level"),
    [
        ("the token", timedelta(seconds=-1), Level.PROBLEM),
        ("the token", timedelta(minutes=10), Level.OK),
        ("the client certificate", timedelta(days=3), Level.WARNING),
        ("the client certificate", timedelta(days=30), Level.OK),
    ],
)
def test_a_credential_that_has_expired_or_expires_soon_is_reported(
    what: str, left: timedelta, level: Level
) -> None:
    held = credentials.Held((credentials.Expiry(what, NOW + left),))
    (found,) = credentials.judge(held, "user 'eve'", NOW)

    assert found.level is level
    assert what in found.text
    assert "user 'eve'" in found.text


def test_credentials_without_an_expiry_are_ok() -> None:
    assert [found.level for found in credentials.judge(credentials.Held(), "", NOW)] == [Level.OK]


REFUSED = Unauthorized(401, reason="Unauthorized", message="sign in again")


@pytest.mark.found("op-46", "op-48", "op-51")
@pytest.mark.parametrize(
    ("held", "error", "code", "remedy"),
    [
        (credentials.Held(), REFUSED, Code.CREDENTIALS_REFUSED, "sign in again, or use another context"),
        (
            credentials.Held((credentials.Expiry("the token", NOW),)),
            REFUSED,
            Code.CREDENTIALS_REFUSED,
            "have expired, as said above: renew them",
        ),
        (credentials.Held(none=True), REFUSED, Code.CREDENTIALS_MISSING, "gets credentials"),
        (credentials.Held(), NotSent("refused"), Code.CLUSTER_UNREACHABLE, "is https://c the right address"),
    ],
    ids=["garbage", "expired", "none", "no answer"],
)
def test_a_refused_user_is_not_asked_about_the_address(
    held: credentials.Held, error: KubeError, code: Code, remedy: str
) -> None:
    found = credentials.judge_refusal(error, held, ClusterConfig(server="https://c"), NOW)

    assert (found.level, found.code) == (Level.PROBLEM, code)
    assert remedy in found.remedy


# --- Rights ---------------------------------------------------------------------------------------------


def test_missing_rights_are_named_by_purpose() -> None:
    missing = {
        "a backup": [rights.Asked("list", "apps", "deployments", "shop")],
        "a restore": [],
        "running hooks in pods": [rights.Asked("create", "", "pods", "shop", "exec")],
    }

    assert seen(rights.judge(rights.Answers("", missing), ["shop"])) == [
        (Level.PROBLEM, "this user lacks rights that a backup of shop needs: list deployments.apps in shop"),
        (Level.OK, "this user may do what a restore of shop needs"),
        (
            Level.PROBLEM,
            "this user lacks rights that running hooks in pods of shop needs: create pods/exec in shop",
        ),
    ]


def test_a_scope_of_namespaces_needs_no_rights_outside() -> None:
    served = [CONFIGMAPS, NAMESPACES, EVENTS]

    asked = rights.wanted("a restore", ("create",), ["shop"], served)

    assert [str(one) for one in asked] == ["create configmaps in shop"]
    everywhere = rights.wanted("a backup", ("list",), [], served)
    assert [str(one) for one in everywhere] == ["list configmaps", "list namespaces", "list events"]


# --- Definitions ----------------------------------------------------------------------------------------


def test_definitions_that_are_all_served_are_ok() -> None:
    assert [level for level, _ in seen(definitions.judge(crd_manifests()))] == [Level.OK]


def test_definitions_that_are_missing_outdated_or_not_established_are_reported() -> None:
    manifests = crd_manifests()
    first, second, third, *others = manifests
    second["spec"]["versions"][0]["served"] = False
    third["status"] = {"conditions": [{"type": "Established", "status": "False"}]}

    found = seen(definitions.judge([second, third, *others]))

    assert found == [
        (Level.PROBLEM, f"definitions are missing: {first['metadata']['name']}"),
        (Level.PROBLEM, f"versions are not served: {second['metadata']['name']} v1"),
        (Level.WARNING, f"not established: {third['metadata']['name']}"),
    ]


@pytest.mark.found("DOC9")
def test_velero_s_own_definition_of_downloads_is_a_warning_that_names_the_cure() -> None:
    manifests = crd_manifests()
    (downloads,) = (crd for crd in manifests if crd["metadata"]["name"] == "downloadrequests.velero.io")
    schema = downloads["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    kind = schema["spec"]["properties"]["target"]["properties"]["kind"]
    kind["enum"] = [each for each in kind["enum"] if each not in ("BackupItemIndex", "RestoreOutcomes")]

    (found,) = definitions.judge(manifests)

    assert found.level == Level.WARNING
    assert "does not know RestoreOutcomes, BackupItemIndex" in found.text
    assert "`pinnace install --crds-only --apply`" in found.remedy


def test_a_cluster_without_any_definition_is_one_problem() -> None:
    (found,) = definitions.judge([])

    assert (found.level, found.text) == (Level.PROBLEM, "no definition of velero.io is installed")
    assert "--location" in found.remedy


# --- Server and node agents -----------------------------------------------------------------------------

ANSWERED = {"status": {"phase": "Processed", "serverVersion": "v1.2.3"}}


DEAD = {"spec": {"holderIdentity": "pod-1", "renewTime": "2026-03-01T11:28:00Z"}}


def facts(**changes: Any) -> server.ServerFacts:
    usual: dict[str, Any] = {
        "namespace": "velero",
        "deployment": {"status": {"readyReplicas": 1}},
        "answer": ANSWERED,
        "lease": {"spec": {"holderIdentity": "pod-1"}},
    }
    return server.ServerFacts(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [(Level.OK, "a server of version v1.2.3 answers"), (Level.OK, "pod-1 leads")]),
        (
            {"lease": None},
            [
                (Level.OK, "a server of version v1.2.3"),
                (Level.OK, "or runs with --leader-elect=false"),
            ],
        ),
        (
            {"lease": {"spec": {"holderIdentity": ""}}},
            [(Level.OK, "answers"), (Level.WARNING, "no server holds the lease")],
        ),
        (
            {"answer": {}, "deployment": None, "lease": None},
            [(Level.PROBLEM, "has no Deployment velero")],
        ),
        (
            {"answer": {}, "deployment": None},
            [(Level.PROBLEM, "pod-1 holds the lease in namespace velero, but did not answer within 5")],
        ),
        (
            {"answer": {}, "deployment": None, "lease": DEAD},
            [(Level.PROBLEM, "and renewed the lease last at 2026-03-01T11:28:00Z")],
        ),
        ({"answer": {}, "deployment": {"status": {}}}, [(Level.PROBLEM, "has no ready pod")]),
        ({"answer": {}}, [(Level.PROBLEM, "did not answer within 5 seconds")]),
    ],
    ids=["well", "of-velero", "no-leader", "nowhere", "outside", "dead", "no-pod", "silent"],
)
def test_the_state_of_the_server_is_reported(
    changes: dict[str, Any], expected: list[tuple[Level, str]]
) -> None:
    found = seen(server.judge_server(facts(**changes), "v1.2.0"))

    assert [level for level, _ in found] == [level for level, _ in expected]
    for (_, text), (_, part) in zip(found, expected, strict=True):
        assert part in text


def test_a_client_of_another_version_is_a_warning() -> None:
    assert seen(server.judge_server(facts(), "v2.0.0"))[-1] == (
        Level.WARNING,
        "the server is v1.2.3, this client v2.0.0",
    )


def test_nodes_without_an_agent_are_named() -> None:
    agents = server.AgentFacts(are_installed=True, nodes=["n1", "n2", "n3"], with_agent={"n1"})

    assert seen(server.judge_agents(agents, "velero")) == [
        (Level.PROBLEM, "no ready agent on 2 of 3 nodes: n2, n3")
    ]
    assert seen(server.judge_agents(server.AgentFacts(), "velero"))[0][0] is Level.SKIPPED


# --- Locations ------------------------------------------------------------------------------------------


def look(phase: str, stale: str = "", **spec: Any) -> SeenLocation:
    location = {
        "metadata": {"name": "main"},
        "spec": {"default": True, **spec},
        "status": {
            "phase": phase,
            "message": "the bucket is gone",
            "lastValidationTime": "2026-03-01T11:58:00Z",
        },
    }
    return SeenLocation(location=location, stale=stale)


@pytest.mark.parametrize(
    ("phase", "probe", "level", "text"),
    [
        ("Available", locations.Probe(), Level.OK, "files in main can be listed, written, read and deleted"),
        ("Available", locations.Probe(read_only=True), Level.OK, "read-only"),
        (
            "Available",
            locations.Probe(read_only=True, vanished=("b1", "b2")),
            Level.PROBLEM,
            "signed backups have vanished from main: b1, b2",
        ),
        ("Available", locations.Probe(problem="denied"), Level.PROBLEM, "main cannot be used: denied"),
        (
            "Available",
            locations.Probe(problem="no answer", unreachable=True),
            Level.SKIPPED,
            "cannot be reached from here",
        ),
        (
            "Available",
            locations.Probe(problem="403 ExpiredToken: The provided token has expired"),
            Level.PROBLEM,
            "main cannot be used: its AWS credentials have expired (403 ExpiredToken",
        ),
        (
            "Available",
            locations.Probe(
                problem="cannot get AWS credentials: Error when retrieving token from sso", unreachable=True
            ),
            Level.PROBLEM,
            "main cannot be used: its AWS sign-on has expired",
        ),
        ("Available", locations.Probe(untried="a folder"), Level.OK, "not written to from here: a folder"),
        ("Available", locations.Probe(untried="a folder"), Level.OK, "it looked just now"),
        (
            "Available",
            locations.Probe(problem="Secret keys does not exist", secret_missing=True),
            Level.PROBLEM,
            "main cannot be used: Secret keys does not exist",
        ),
        (
            "Unavailable",
            locations.Probe(),
            Level.PROBLEM,
            "the server cannot use main, it looked just now: the bucket is gone",
        ),
        ("", locations.Probe(), Level.PROBLEM, "no server has looked at main yet"),
    ],
)
def test_the_state_of_a_location_of_a_server_is_reported(
    phase: str, probe: locations.Probe, level: Level, text: str
) -> None:
    ((found, shown),) = seen(locations.judge_servers({"main": look(phase)}, {"main": probe}, NOW))

    assert found is level
    assert text in shown


@pytest.mark.found("op-83")
@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        ("cannot write 'x': no space left on the device", "make room on that disk"),
        ("Backup store contains invalid top-level directories: [photos]", "name an empty folder"),
        ("cannot write 'x': the file system is read-only", "mount it writable"),
        ("it did not answer within 10 seconds", "see that the store runs"),
        ('unable to get key for secret: Secret "keys" not found', "make the Secret again"),
        ("AccessDenied", "credentials"),
        (
            "config.objectLock.mode is compliance, but bucket 'b' has no object lock: ...",
            "made with object lock",
        ),
        ("cannot ask bucket 'b' for its object lock: denied", "s3:GetBucketObjectLockConfiguration"),
    ],
)
def test_the_remedy_for_a_location_is_one_for_its_problem(why: str, remedy: str) -> None:
    unavailable = look("Unavailable")
    unavailable.location["status"]["message"] = why
    (by_server,) = locations.judge_servers({"main": unavailable}, {"main": locations.Probe()}, NOW)

    for found in (by_server, locations.judge_probe("main", locations.Probe(problem=why))):
        assert remedy in found.remedy


def test_no_location_and_no_default_location_are_reported() -> None:
    assert seen(locations.judge_servers({}, {}, NOW)) == [
        (Level.PROBLEM, "there is no backup storage location")
    ]
    looks = {"main": look("Available", default=False)}
    found = seen(locations.judge_servers(looks, {"main": locations.Probe()}, NOW))
    assert found[-1] == (Level.WARNING, "no location is the default")


@pytest.mark.found("op-74", "op-75")
@pytest.mark.parametrize(
    ("probe", "level"),
    [
        (locations.Probe(), Level.OK),
        (locations.Probe(problem="refused", unreachable=True), Level.PROBLEM),
        (locations.Probe(untried="it is a folder of the server's machine"), Level.PROBLEM),
    ],
    ids=["tried from here", "not reached from here", "not tried from here"],
)
def test_what_the_server_found_before_is_no_reason_for_an_all_clear(
    probe: locations.Probe, level: Level
) -> None:
    looks = {"main": look("Available", stale="no server answers")}

    ((found, text),) = seen(locations.judge_servers(looks, {"main": probe}, NOW))

    assert found is level
    if level is Level.PROBLEM:
        assert "nothing shows that main can be used now: no server answers; it was Available 2m ago" in text


# --- Backups --------------------------------------------------------------------------------------------


def ended(name: str, phase: str, hour: int, schedule: str = "", **status: Any) -> dict[str, Any]:
    labels = {"velero.io/schedule-name": schedule} if schedule else {}
    started = f"2026-03-01T{hour:02}:00:00Z"
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"phase": phase, "startTimestamp": started, **status},
    }


@pytest.mark.found("op-76")
@pytest.mark.parametrize(
    ("made", "level", "text"),
    [
        ([], Level.SKIPPED, "none has ended yet"),
        ([ended("a", "InProgress", 1)], Level.SKIPPED, "none has ended yet"),
        ([ended("a", "Failed", 1), ended("b", "Completed", 2)], Level.OK, "the newest is b (10h ago)"),
        ([ended("a", "Completed", 14)], Level.OK, "the newest is a (in 2h)"),
        (
            [
                ended("a", "Completed", 1),
                ended("b", "PartiallyFailed", 2),
                ended("c", "Failed", 3, failureReason="the bucket is gone"),
                ended("d", "InProgress", 4),
            ],
            Level.PROBLEM,
            "the last 2 backups made by hand did not complete: c (9h ago) is Failed (the bucket is gone); "
            "the last that completed is a (11h ago)",
        ),
        (
            [ended("a", "FailedValidation", 1, "nightly", validationErrors=["no location"])],
            Level.PROBLEM,
            "the last backup of schedule nightly did not complete: a (11h ago) is FailedValidation "
            "(no location); none has completed",
        ),
        (
            [ended("good", "Completed", 5), ended("a", "PartiallyFailed", 1, "nightly")],
            Level.WARNING,
            "the last backup of schedule nightly did not complete: a (11h ago) is PartiallyFailed",
        ),
    ],
    ids=["none", "running", "fixed", "of a clock ahead", "failed", "refused", "in part"],
)
def test_last_backups_that_did_not_complete_are_reported(
    made: list[dict[str, Any]], level: Level, text: str
) -> None:
    ((found, said),) = seen(backups.judge(made, NOW))

    assert found is level
    assert text in said


def verified(backup: dict[str, Any], result: str, findings: str = "") -> dict[str, Any]:
    notes = {"pinnace.io/verified": f"2026-03-01T11:00:00Z {result}"}
    if findings:
        notes["pinnace.io/verification-findings"] = findings
    return {**backup, "metadata": {**backup["metadata"], "annotations": notes}}


@pytest.mark.parametrize(
    ("made", "level", "text"),
    [
        ([verified(ended("a", "Completed", 1), "sound")], Level.OK, "the newest is a"),
        (
            [
                verified(ended("a", "Completed", 1), "unsound", "contents: the tarball is cut off"),
                ended("b", "Completed", 2),
            ],
            Level.PROBLEM,
            "backup a is unsound, verified 1h ago: contents: the tarball is cut off",
        ),
        (
            [
                verified(ended("a", "Completed", 1, "nightly"), "unsound"),
                verified(ended("b", "PartiallyFailed", 2), "unsound"),
                ended("c", "Completed", 3),
            ],
            Level.PROBLEM,
            "the verification of 2 backups found damage: b, a; backup b is unsound, verified 1h ago",
        ),
        ([verified(ended("a", "Deleting", 1), "unsound")], Level.SKIPPED, "none has ended yet"),
    ],
    ids=["sound", "one, not the newest", "two", "deleted"],
)
def test_backups_that_a_verification_found_unsound_are_a_problem(
    made: list[dict[str, Any]], level: Level, text: str
) -> None:
    ((found, said),) = seen(backups.judge(made, NOW))

    assert found is level
    assert text in said


# --- Clocks, repositories, snapshots, schedules ---------------------------------------------------------


_RETENTION = "pinnace.io/retention"
_SAID = "2026-03-01T06:00:00Z waiting 11 go. x"


@pytest.mark.parametrize(
    ("notes", "level", "said"),
    [
        ({_RETENTION: "keepLast: x"}, Level.PROBLEM, "no backup of schedule s is deleted by its rules"),
        ({_RETENTION: "keepLast: 3", f"{_RETENTION}-status": _SAID}, Level.WARNING, "schedule s: 11 go"),
        ({_RETENTION: "keepLast: 3", f"{_RETENTION}-status": f"{_SAID[:20]} applied"}, Level.OK, ""),
        ({f"{_RETENTION}-status": _SAID}, Level.OK, ""),
    ],
)
def test_rules_of_retention_that_are_not_carried_out_are_named(
    notes: dict[str, str], level: Level, said: str
) -> None:
    schedule = scheduled("s", last="2026-03-01T00:00:00Z")
    schedule["metadata"]["annotations"] = notes

    ((found, text),) = seen(schedules.judge([schedule], [], NOW))

    assert found is level
    assert said in text


@pytest.mark.parametrize(
    ("ahead", "level"), [(1, Level.OK), (-31, Level.WARNING), (31, Level.WARNING), (-301, Level.PROBLEM)]
)
def test_a_clock_that_differs_is_reported(ahead: int, level: Level) -> None:
    finding = clocks.judge("the cluster", NOW + timedelta(seconds=ahead), NOW)

    assert finding.level is level
    if level is not Level.OK:
        direction = "ahead of" if ahead > 0 else "behind"
        assert finding.text == f"the clock of the cluster is {abs(ahead)} seconds {direction} this machine's"


def test_an_unknown_clock_is_skipped() -> None:
    assert clocks.judge("the cluster", None, NOW).level is Level.SKIPPED


def test_the_public_password_of_repositories_is_reported() -> None:
    ((level, text),) = seen(repositories.judge_passwords(["velero-repo-credentials"], "velero"))
    assert level is Level.WARNING
    assert "Secret velero-repo-credentials in namespace velero" in text
    assert "static" not in text
    assert repositories.judge_passwords([], "velero") == []


def test_repositories_that_are_not_ready_are_reported() -> None:
    broken = {"metadata": {"name": "r1"}, "status": {"phase": "NotReady", "message": "wrong password"}}
    fine = {"metadata": {"name": "r2"}, "status": {"phase": "Ready"}}

    assert seen(repositories.judge([broken, fine])) == [(Level.PROBLEM, "r1 is not ready: wrong password")]
    assert seen(repositories.judge([fine])) == [(Level.OK, "none of 1 is broken")]
    assert seen(repositories.judge([]))[0][0] is Level.SKIPPED


def test_locks_are_reported_only_while_no_volume_is_saved_or_restored() -> None:
    locks = {"shop": 2, "blog": 0}

    ((level, text),) = seen(repositories.judge_locks("main", locks, in_use=False))
    assert level is Level.WARNING
    assert text.endswith("uses them: shop (2)")
    assert repositories.judge_locks("main", locks, in_use=True) == []
    assert repositories.judge_locks("main", {"blog": 0}, in_use=False) == []


def snapshot_class(name: str, driver: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "driver": driver}


@pytest.mark.parametrize(
    ("facts", "level", "part"),
    [
        ({}, Level.SKIPPED, "no CSI driver"),
        ({"drivers": ["d"]}, Level.SKIPPED, "does not serve CSI snapshots"),
        ({"drivers": ["d"], "used": {"d"}}, Level.WARNING, "does not serve CSI snapshots"),
        ({"drivers": ["d"], "used": {"d"}, "classes": []}, Level.PROBLEM, "no VolumeSnapshotClass"),
        ({"drivers": ["d"], "classes": []}, Level.SKIPPED, "no VolumeSnapshotClass"),
        ({"drivers": ["d"], "classes": [snapshot_class("c", "d")]}, Level.OK, "has the class c"),
        (
            {
                "drivers": ["d"],
                "used": {"d"},
                "classes": [snapshot_class("c", "d"), snapshot_class("e", "d")],
            },
            Level.PROBLEM,
            "several VolumeSnapshotClasses",
        ),
    ],
)
def test_the_class_of_each_driver_is_reported(facts: dict[str, Any], level: Level, part: str) -> None:
    ((found, text),) = seen(snapshots.judge(snapshots.SnapshotFacts(**facts)))

    assert found is level
    assert part in text


@pytest.mark.parametrize(
    ("spec", "status", "level", "part"),
    [
        ({"schedule": "@every 1h"}, {}, None, ""),
        ({"schedule": "25h"}, {}, Level.PROBLEM, "nightly will never run: invalid schedule"),
        ({"schedule": "0 0 31 2 *"}, {}, Level.PROBLEM, "it never fires"),
        (
            {"schedule": "@daily"},
            {"phase": "FailedValidation", "validationErrors": ["no template"]},
            Level.PROBLEM,
            "will not run: no template",
        ),
        (
            {"schedule": "@daily", "template": {"storageLocation": "gone"}},
            {},
            Level.PROBLEM,
            "names the storage location gone, which does not exist",
        ),
        ({"schedule": "@daily", "paused": True}, {}, Level.WARNING, "is paused"),
        (
            {"schedule": "@daily"},
            {"lastBackup": "2026-02-27T00:00:00Z"},
            Level.PROBLEM,
            "was due at 2026-02-28",
        ),
        ({"schedule": "@daily"}, {"lastBackup": "2026-03-01T00:00:00Z"}, None, ""),
    ],
)
def test_a_schedule_that_does_not_run_is_reported(
    spec: dict[str, Any], status: dict[str, Any], level: Level | None, part: str
) -> None:
    schedule = {"metadata": {"name": "nightly", "namespace": "velero"}, "spec": spec, "status": status}

    ((found, text),) = seen(schedules.judge([schedule], ["main"], NOW))

    assert found is (level or Level.OK)
    assert (part or "schedule nightly will run") in text


def scheduled(name: str, created: str = "", last: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "velero", "creationTimestamp": created},
        "spec": {"schedule": "@daily"},
        "status": {"lastBackup": last or None},
    }


@pytest.mark.found("op-71")
def test_no_schedule_is_fine_while_no_server_answers() -> None:
    fine = scheduled("s", last="2026-03-01T00:00:00Z")

    assert seen(schedules.judge([fine], [], NOW, without_server="namespace velero")) == [
        (Level.PROBLEM, "schedule s will not run, as no server answers in namespace velero")
    ]


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("2026-03-01T01:00:00Z invalid annotation pinnace.io/verify: 2 fields", "pinnace.io/verify: 2"),
        ("2026-03-01T01:00:00Z unsound b-1", ""),
    ],
)
def test_annotations_that_ask_for_verification_in_vain_are_reported(note: str, said: str) -> None:
    fine = scheduled("s", last="2026-03-01T00:00:00Z")
    fine["metadata"]["annotations"] = {"pinnace.io/verify": "daily", "pinnace.io/last-verification": note}

    ((level, text),) = seen(schedules.judge([fine], [], NOW))

    assert level is (Level.WARNING if said else Level.OK)
    assert said in text


@pytest.mark.found("op-71")
def test_a_schedule_that_never_ran_is_late_too() -> None:
    never = scheduled("s", created="2026-02-20T00:00:00Z")

    ((level, text),) = seen(schedules.judge([never], [], NOW))
    assert level is Level.PROBLEM
    assert text == "schedule s has never run and was due at 2026-02-21 00:00 UTC, 8d ago"


@pytest.mark.parametrize(
    ("expression", "notes", "zone", "last", "late"),
    [
        # NOW is noon in UTC, and 21:00 in Tokyo.
        ("0 9 * * *", {}, UTC, "2026-02-28T09:00:00Z", True),
        ("0 22 * * *", {}, ZoneInfo("Asia/Tokyo"), "2026-02-28T13:00:00Z", False),
        ("0 9 * * *", {}, ZoneInfo("America/New_York"), "2026-02-28T14:00:00Z", False),
        ("CRON_TZ=America/New_York 0 9 * * *", {}, UTC, "2026-02-28T14:00:00Z", False),
        ("0 9 * * *", {"next-run": "2026-03-01T14:00:00Z"}, UTC, "2026-02-28T14:00:00Z", False),
        ("0 9 * * *", {"next-run": "2026-02-27T14:00:00Z"}, UTC, "2026-02-28T09:00:00Z", True),
        ("0 9 * * *", {"not-during": "08:00-18:00"}, UTC, "2026-02-28T18:00:00Z", False),
        ("@hourly-random", {}, UTC, "2026-03-01T09:00:00Z", True),
    ],
)
def test_lateness_is_by_the_time_zone_and_the_windows_of_the_schedule(
    expression: str, notes: dict[str, str], zone: tzinfo, last: str, late: bool
) -> None:
    schedule = scheduled("s", last=last)
    schedule["spec"]["schedule"] = expression
    schedule["metadata"]["annotations"] = {f"pinnace.io/{name}": value for name, value in notes.items()}

    ((level, _),) = seen(schedules.judge([schedule], [], NOW, zone=zone))

    assert level is (Level.PROBLEM if late else Level.OK)


def test_annotations_that_keep_a_schedule_from_running_are_named() -> None:
    schedule = scheduled("s", last="2026-03-01T00:00:00Z")
    schedule["metadata"]["annotations"] = {"pinnace.io/catch-up": "all"}

    ((level, text),) = seen(schedules.judge([schedule], [], NOW))

    assert level is Level.PROBLEM
    assert text == "schedule s will never run: annotation pinnace.io/catch-up: 'all' is neither none nor last"


def test_the_time_zone_of_the_server_is_that_of_its_deployment() -> None:
    def zone(*env: dict[str, str]) -> str:
        containers = [{"name": "velero", "env": list(env)}]
        deployment = {"spec": {"template": {"spec": {"containers": containers}}}}
        facts = server.ServerFacts(namespace="velero", deployment=deployment, answer={}, lease=None)
        return str(facts.zone)

    assert zone({"name": "HOME", "value": "/x"}, {"name": "TZ", "value": "Europe/Berlin"}) == "Europe/Berlin"
    assert zone() == zone({"name": "TZ"}) == "UTC"


def test_a_schedule_is_only_delayed_by_a_backup_that_runs() -> None:
    late = scheduled("s", last="2026-02-20T00:00:00Z")
    unfinished = [ended("s-1", "InProgress", 1, "s"), ended("t-1", "Completed", 1, "t")]

    in_progress = schedules.running(unfinished)
    ((level, text),) = seen(schedules.judge([late], [], NOW, in_progress=in_progress))

    assert (in_progress, level) == ({"s"}, Level.WARNING)
    assert text.endswith("; a backup of it has not ended")


def test_the_command_that_mends_a_schedule_can_be_pasted() -> None:
    schedule = {"metadata": {"name": "nightly", "namespace": "velero"}, "spec": {"schedule": "25h"}}

    (found,) = schedules.judge([schedule], ["main"], NOW)

    assert "`kubectl -n velero edit schedules.velero.io nightly`" in found.remedy


def test_a_cluster_without_nodes_has_no_agents_to_look_for() -> None:
    (found,) = server.judge_agents(server.AgentFacts(are_installed=True), "velero")

    assert found.level is Level.SKIPPED


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("403 Forbidden: ExpiredToken: The provided token has expired.", "AWS credentials have expired"),
        ("An error occurred (ExpiredTokenException) when calling AssumeRole", "AWS credentials have expired"),
        (
            "Error when retrieving token from sso: Token has expired and refresh failed",
            "AWS sign-on has expired",
        ),
        (
            "403 InvalidAccessKeyId: The AWS Access Key Id you provided does not exist",
            "no longer exists",
        ),
        ("403 SignatureDoesNotMatch", "secret access key is wrong"),
        ("403 RequestTimeTooSkewed: The difference is too large", "too old or too new"),
        ("('invalid_grant: Token has been expired or revoked.')", "Google credentials have expired"),
        ("AADSTS7000222: The provided client secret keys for app are expired", "client secret has expired"),
        ("AADSTS7000215: Invalid client secret provided", "client secret is wrong"),
        ("AuthenticationFailed: Signature not valid in the specified time frame", "no longer valid"),
    ],
)
def test_errors_of_clouds_about_credentials_are_explained(message: str, said: str) -> None:
    found = trouble_of(message)
    assert found is not None
    assert said in found.text


@pytest.mark.parametrize("message", ["", "403 AccessDenied", "no such bucket", "no answer within 30 seconds"])
def test_other_errors_are_not_explained_by_credentials(message: str) -> None:
    assert trouble_of(message) is None


@pytest.mark.found("L4")
def test_a_schedule_whose_last_run_is_in_the_future_is_a_problem() -> None:
    def schedule(last: str) -> dict[str, Any]:
        return {
            "metadata": {"name": "s", "namespace": "velero"},
            "spec": {"schedule": "@every 1m"},
            "status": {"phase": "Enabled", "lastBackup": last},
        }

    ((level, text),) = seen(schedules.judge([schedule("2026-04-03T12:00:00Z")], [], NOW))
    assert level is Level.PROBLEM
    assert text == "schedule s last ran at 2026-04-03 12:00 UTC, which is in the future: a clock was ahead"
    ((level, _),) = seen(schedules.judge([schedule("2026-03-01T12:04:00Z")], [], NOW))
    assert level is Level.OK

"""The findings of the doctor about given facts: pure, one table for each subject."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pinnace.api.definitions.crds import crd_manifests
from pinnace.cli.doctor import (
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
from pinnace.cli.doctor.cloud_credentials import trouble_of
from pinnace.cli.doctor.findings import Finding, Level, listed
from pinnace.kube.resources import CONFIGMAPS, EVENTS, NAMESPACES

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
    (found,) = credentials.judge([credentials.Expiry(what, NOW + left)], "user 'eve'", NOW)

    assert found.level is level
    assert what in found.text
    assert "user 'eve'" in found.text


def test_credentials_without_an_expiry_are_ok() -> None:
    assert [found.level for found in credentials.judge([], "", NOW)] == [Level.OK]


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
    assert [level for level, _ in seen(definitions.judge(crd_manifests(), "install"))] == [Level.OK]


def test_definitions_that_are_missing_outdated_or_not_established_are_reported() -> None:
    manifests = crd_manifests()
    first, second, third, *others = manifests
    second["spec"]["versions"][0]["served"] = False
    third["status"] = {"conditions": [{"type": "Established", "status": "False"}]}

    found = seen(definitions.judge([second, third, *others], "pinnace install --crds-only"))

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

    (found,) = definitions.judge(manifests, "pinnace install --crds-only")

    assert found.level == Level.WARNING
    assert "does not know RestoreOutcomes, BackupItemIndex" in found.text
    assert "`pinnace install --crds-only --apply`" in found.remedy


def test_a_cluster_without_any_definition_is_one_problem() -> None:
    (found,) = definitions.judge([], "pinnace install --crds-only")

    assert (found.level, found.text) == (Level.PROBLEM, "no definition of velero.io is installed")
    assert "--location" in found.remedy


# --- Server and node agents -----------------------------------------------------------------------------

ANSWERED = {"status": {"phase": "Processed", "serverVersion": "v1.2.3"}}


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
        ({"answer": {}, "deployment": {"status": {}}}, [(Level.PROBLEM, "has no ready pod")]),
        ({"answer": {}}, [(Level.PROBLEM, "did not answer within 5 seconds")]),
    ],
    ids=["well", "of-velero", "no-leader", "nowhere", "outside", "no-pod", "silent"],
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
    agents = server.AgentFacts(daemon_set="node-agent", nodes=["n1", "n2", "n3"], with_agent={"n1"})

    assert seen(server.judge_agents(agents, "velero")) == [
        (Level.PROBLEM, "2 of 3 nodes have no ready agent: n2, n3")
    ]
    assert seen(server.judge_agents(server.AgentFacts(), "velero"))[0][0] is Level.SKIPPED


# --- Locations ------------------------------------------------------------------------------------------


def location(phase: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "main"},
        "spec": {"default": True, **spec},
        "status": {"phase": phase, "message": "the bucket is gone"},
    }


@pytest.mark.parametrize(
    ("phase", "probe", "level", "text"),
    [
        ("Available", locations.Probe(), Level.OK, "files in main can be listed, written, read and deleted"),
        ("Available", locations.Probe(read_only=True), Level.OK, "read-only"),
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
        ("Unavailable", locations.Probe(), Level.PROBLEM, "the server cannot use main: the bucket is gone"),
        ("", locations.Probe(), Level.PROBLEM, "no server has looked at main yet"),
    ],
)
def test_the_state_of_a_location_of_a_server_is_reported(
    phase: str, probe: locations.Probe, level: Level, text: str
) -> None:
    ((found, shown),) = seen(locations.judge_servers([location(phase)], {"main": probe}))

    assert found is level
    assert text in shown


def test_no_location_and_no_default_location_are_reported() -> None:
    assert seen(locations.judge_servers([], {})) == [(Level.PROBLEM, "there is no backup storage location")]
    found = seen(locations.judge_servers([location("Available", default=False)], {"main": locations.Probe()}))
    assert found[-1] == (Level.WARNING, "no location is the default")


# --- Clocks, repositories, snapshots, schedules ---------------------------------------------------------


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
        ({"schedule": "0 0 31 2 *"}, {}, Level.PROBLEM, "there is no time at which it fires"),
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
            Level.WARNING,
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
    assert (part or "all 1 will run") in text


def test_the_command_that_mends_a_schedule_can_be_pasted() -> None:
    schedule = {"metadata": {"name": "nightly", "namespace": "velero"}, "spec": {"schedule": "25h"}}

    (found,) = schedules.judge([schedule], ["main"], NOW)

    assert "`kubectl -n velero edit schedules.velero.io nightly`" in found.remedy


def test_a_cluster_without_nodes_has_no_agents_to_look_for() -> None:
    (found,) = server.judge_agents(server.AgentFacts(daemon_set="node-agent"), "velero")

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

"""`schedule`, byte for byte where the specification has samples."""

import json
import re
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace.api.values.times import format_time
from pinnace.cli.common.describing import View
from pinnace.cli.main import run
from pinnace.cli.output.printing import OutputFlags, render_table
from pinnace.cli.output.server_tables import schedule_table
from pinnace.cli.schedule.describe import describe_schedule
from pinnace.kube.resources import velero
from tests.support.clock import FakeClock
from tests.unit.cli.cluster import (
    BACKUP_LOCATIONS,
    SCHEDULES,
    SNAPSHOT_LOCATIONS,
    ServedCluster,
    connected,
)

NOW = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    return connected(monkeypatch, tmp_path)


def daily(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "velero.io/v1",
        "kind": "Schedule",
        "metadata": {
            "name": "daily",
            "namespace": "velero",
            "creationTimestamp": "2021-08-01T06:00:00Z",
            "labels": {"team": "shop"},
        },
        "spec": {
            "schedule": "0 7 * * *",
            "template": {
                "hooks": {},
                "includedNamespaces": ["nginx"],
                "labelSelector": {"matchLabels": {"app": "nginx"}},
                "storageLocation": "default",
                "ttl": "720h",
            },
        },
        "status": {"phase": "Enabled", "lastBackup": "2021-08-11T07:00:10Z"},
        **changes,
    }


# --- create ---------------------------------------------------------------------------------------------


def created(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What would be sent."""
    assert run(["schedule", "create", "s", *words, "-o", "yaml"]) == 0
    printed: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return printed


@pytest.mark.spec("CLI-046")
def test_output_prints_without_sending(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    assert created(capsys, "--schedule", "0 7 * * *") == {
        "apiVersion": "velero.io/v1",
        "kind": "Schedule",
        "metadata": {"creationTimestamp": None, "name": "s", "namespace": "velero"},
        "spec": {
            "schedule": "0 7 * * *",
            "template": {"hooks": {}, "includedNamespaces": ["*"], "ttl": "0s"},
            "useOwnerReferencesInBackup": False,
        },
        "status": {},
    }
    assert cluster.writes() == []


@pytest.mark.spec("CLI-046")
def test_output_of_restores_and_locations_prints_without_sending(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.add(velero("backups"), "b1")

    assert run(["restore", "create", "r", "--from-backup", "b1", "-o", "yaml"]) == 0
    restore = yaml.safe_load(capsys.readouterr().out)
    assert restore["spec"] == {"backupName": "b1", "hooks": {}, "includedNamespaces": ["*"]}
    assert restore["status"] == {}
    assert run(["snapshot-location", "create", "v", "--provider", "p", "-o", "yaml"]) == 0
    location = yaml.safe_load(capsys.readouterr().out)
    assert location["spec"] == {"provider": "p"}
    assert location["status"] == {}
    assert cluster.writes() == []


def test_all_flags_of_a_backup_reach_the_template(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    whole = created(
        capsys, "--schedule", "@every 6h", "--use-owner-references-in-backup", "--labels", "a=b,c=d",
        "--ttl", "24h", "--include-namespaces", "n1,n2", "--exclude-namespaces", "n3",
        "--include-resources", "pods", "--exclude-resources", "secrets", "-l", "app=x",
        "--storage-location", "main", "--volume-snapshot-locations", "v1,v2", "--snapshot-volumes=false",
        "--include-cluster-resources", "--default-volumes-to-restic",
        "--ordered-resources", "pods=n1/p1,n1/p2",
    )  # fmt: skip

    assert whole["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert whole["spec"] == {
        "schedule": "@every 6h",
        "useOwnerReferencesInBackup": True,
        "template": {
            "hooks": {},
            "ttl": "24h0m0s",
            "includedNamespaces": ["n1", "n2"],
            "excludedNamespaces": ["n3"],
            "includedResources": ["pods"],
            "excludedResources": ["secrets"],
            "labelSelector": {"matchLabels": {"app": "x"}},
            "storageLocation": "main",
            "volumeSnapshotLocations": ["v1", "v2"],
            "snapshotVolumes": False,
            "includeClusterResources": True,
            "defaultVolumesToFsBackup": True,
            "orderedResources": {"pods": "n1/p1,n1/p2"},
        },
    }


def test_create_sends_the_schedule(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    cluster.add(BACKUP_LOCATIONS, "main")
    cluster.add(SNAPSHOT_LOCATIONS, "v1")
    words = ["--schedule", "0 7 * * *", "--storage-location", "main", "--volume-snapshot-locations", "v1"]

    assert run(["create", "schedule", "s", *words]) == 0

    assert capsys.readouterr().out == 'Schedule "s" created successfully.\n'
    sent = cluster.stored(SCHEDULES, "s")
    assert sent["spec"]["template"]["storageLocation"] == "main"
    assert sent["spec"]["useOwnerReferencesInBackup"] is False


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "accepts 1 arg(s), received 0"),
        (["s"], "--schedule is required, as in --schedule '0 3 * * *' or --schedule @daily"),
        (["s", "--schedule", "0 7 * *"], "invalid schedule: Expected exactly 5 fields, found 4: 0 7 * *"),
        (["s", "--schedule", "@every 0s"], "invalid schedule: the interval must be positive: @every 0s"),
        (["s", "--schedule", "0 0 30 2 *"], "it never fires: 0 0 30 2 *"),
        (
            ["s", "--schedule", "@daily", "--not-during", "8-18"],
            "--not-during: '8-18' is no window: write it",
        ),
        (
            ["s", "--schedule", "@daily", "--annotations", "pinnace.io/allow-overlap=yes"],
            "annotation pinnace.io/allow-overlap: 'yes' is neither true nor false",
        ),
        (["s", "--schedule", "@daily", "--catch-up", "all"], "'all' is not one of 'none', 'last'"),
        (["s", "--schedule", "@noon-random"], "Unrecognized descriptor: @noon-random"),
        (["s", "--schedule", "@daily", "-o", "xml"], 'invalid output format "xml"'),
        (["s", "--schedule", "@daily", "--ordered-resources", "x"], "Invalid OrderedResources 'x'."),
        (["s", "--schedule", "@daily", "--wait"], "unknown flag: --wait"),
        (["s", "--schedule", "@daily", "--from-schedule", "x"], "unknown flag: --from-schedule"),
    ],
)
def test_create_refuses_wrong_expressions_and_flags(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str], text: str
) -> None:
    assert run(["schedule", "create", *words]) == 1
    assert text in capsys.readouterr().err
    assert cluster.writes() == []


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        (
            "--storage-location",
            'backupstoragelocations.velero.io "nope" not found; there are no backup',
        ),
        (
            "--volume-snapshot-locations",
            'volumesnapshotlocations.velero.io "nope" not found; there are no',
        ),
    ],
)
def test_create_refuses_locations_that_do_not_exist(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, flag: str, error: str
) -> None:
    assert run(["schedule", "create", "s", "--schedule", "@daily", flag, "nope"]) == 1
    assert capsys.readouterr().err.startswith(f"An error occurred: {error}")
    assert cluster.writes() == []


def test_policies_may_be_made_after_their_schedule(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    flags = ("--schedule", "@daily", "--resource-policies-configmap", "later")

    assert run(["schedule", "create", "daily", *flags]) == 0

    assert "has no ConfigMap later, and runs fail until it has" in capsys.readouterr().err
    sent = cluster.stored(SCHEDULES, "daily")
    assert sent["spec"]["template"]["resourcePolicy"]["name"] == "later"


@pytest.mark.spec("CLI-010")
def test_a_backup_from_a_schedule_has_its_template_labels_and_owner(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    template = {
        "ttl": "24h0m0s",
        "includedNamespaces": ["n"],
        "storageLocation": "main",
        "volumeGroupSnapshotLabelKey": "group",
        "ofTheFuture": 1,
    }
    cluster.add(
        SCHEDULES, "test", labels={"velero.io/test": "true"},
        annotations={"note": "x", "pinnace.io/verify": "@daily"},
        spec={"schedule": "@daily", "template": template},
    )  # fmt: skip

    assert run(["backup", "create", "b", "--from-schedule", "test", "--ttl", "1h"]) == 0
    made = cluster.stored(velero("backups"), "b")
    # As the server would make it: what is not supported or not known is not lost, but told.
    assert made["spec"] == template
    warned = capsys.readouterr().err
    assert "WARNING: spec.volumeGroupSnapshotLabelKey is not supported" in warned
    assert "WARNING: spec.ofTheFuture is not a field" in warned
    assert made["metadata"]["labels"] == {"velero.io/test": "true", "velero.io/schedule-name": "test"}
    assert made["metadata"]["annotations"] == {"note": "x"}

    labels = "velero.io/test=yes,custom-label=true"
    assert run(["backup", "create", "b2", "--from-schedule", "test", "--labels", labels]) == 0
    assert cluster.stored(velero("backups"), "b2")["metadata"]["labels"] == {
        "velero.io/test": "yes",
        "custom-label": "true",
        "velero.io/schedule-name": "test",
    }

    cluster.add(
        SCHEDULES, "marked", annotations={"note": "x"},
        spec={"schedule": "@daily", "template": {"metadata": {"annotations": {"of": "template"}}}},
    )  # fmt: skip
    assert run(["backup", "create", "b4", "--from-schedule", "marked", "--annotations", "mine=1"]) == 0
    assert cluster.stored(velero("backups"), "b4")["metadata"]["annotations"] == {
        "of": "template",
        "mine": "1",
    }

    capsys.readouterr()
    assert run(["backup", "create", "b3", "--from-schedule", "nope"]) == 1
    error = 'An error occurred: schedules.velero.io "nope" not found; namespace velero has marked, test\n'
    assert capsys.readouterr().err == error


# --- pause and unpause ----------------------------------------------------------------------------------


def paused(cluster: ServedCluster, name: str) -> object:
    return cluster.stored(SCHEDULES, name)["spec"].get("paused")


@pytest.mark.spec("BEY-071")
def test_pausing_a_paused_schedule_is_skipped_with_a_notice(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.add(SCHEDULES, "s", spec={"schedule": "@daily", "template": {}})

    assert run(["schedule", "pause", "s"]) == 0
    assert run(["schedule", "pause", "s"]) == 0
    assert capsys.readouterr().out == "Schedule s paused successfully\nSchedule s is already paused, skip\n"
    assert paused(cluster, "s") is True

    assert run(["schedule", "unpause", "s", "--skip-immediately"]) == 0
    assert capsys.readouterr().out == "Schedule s unpaused successfully\n"
    assert cluster.stored(SCHEDULES, "s")["spec"]["skipImmediately"] is True
    assert paused(cluster, "s") is False


@pytest.mark.spec("BEY-071")
@pytest.mark.parametrize(
    ("choice", "chosen"), [(["--all"], {"a", "b"}), (["-l", "n=a"], {"a"}), (["b"], {"b"})]
)
def test_pausing_touches_only_the_chosen_schedules_of_the_namespace(
    cluster: ServedCluster, choice: list[str], chosen: set[str]
) -> None:
    for name in ("a", "b"):
        cluster.add(SCHEDULES, name, labels={"n": name}, spec={"schedule": "@daily"})
    cluster.add(SCHEDULES, "a", "elsewhere", labels={"n": "a"}, spec={"schedule": "@daily"})

    assert run(["schedule", "pause", *choice]) == 0

    assert {name for name in ("a", "b") if paused(cluster, name)} == chosen
    assert "paused" not in cluster.stored(SCHEDULES, "a", "elsewhere")["spec"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "you must specify exactly one of"),
        (["s", "--all"], "you must specify exactly one of"),
        (["-l", ""], "--selector must not be empty"),
        (["nope"], 'schedules.velero.io "nope" not found'),
    ],
)
def test_pause_refuses_wrong_choices(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str], text: str
) -> None:
    assert run(["schedule", "pause", *words]) == 1
    assert text in capsys.readouterr().err
    assert cluster.writes() == []


def test_a_schedule_can_be_created_paused(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    spec = created(capsys, "--schedule", "@daily", "--paused", "--skip-immediately=false")["spec"]

    assert (spec["paused"], spec["skipImmediately"]) == (True, False)
    assert cluster.writes() == []


def test_windows_catch_up_and_overlap_stand_in_annotations(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    words = ["--not-during", "Mon-Fri 08:00-18:00", "--catch-up", "none", "--allow-overlap"]
    made = created(capsys, "--schedule", "CRON_TZ=Europe/Berlin @daily-random", *words)
    assert made["spec"]["schedule"] == "CRON_TZ=Europe/Berlin @daily-random"
    assert made["metadata"]["annotations"] == {
        "pinnace.io/not-during": "Mon-Fri 08:00-18:00",
        "pinnace.io/catch-up": "none",
        "pinnace.io/allow-overlap": "true",
    }
    assert "annotations" not in created(capsys, "--schedule", "@daily", "--catch-up", "last")["metadata"]

    assert run(["schedule", "create", "later", "--schedule", "@daily", "--paused"]) == 0
    assert "It is paused; this starts it: pinnace schedule unpause later" in capsys.readouterr().out


# --- run ------------------------------------------------------------------------------------------------


def test_run_makes_the_backup_that_the_server_would_make_and_marks_it(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    template = {"includedNamespaces": ["shop"], "ofTheFuture": 1}
    cluster.add(
        SCHEDULES, "s", labels={"team": "shop"},
        annotations={"note": "x", "pinnace.io/not-during": "08:00-18:00"},
        spec={"schedule": "@daily", "paused": True, "template": template},
    )  # fmt: skip

    assert run(["schedule", "run", "s", "--labels", "by=hand", "-o", "name"]) == 0

    shown = capsys.readouterr()
    name = shown.out.strip().removeprefix("backup.velero.io/")
    made = cluster.stored(velero("backups"), name)
    uid = cluster.stored(SCHEDULES, "s")["metadata"]["uid"]
    stamp = datetime.strptime(name, "s-%Y%m%d%H%M%S")  # the clock of these tests is in UTC
    notes = {key: value for key, value in made["metadata"]["annotations"].items() if "cluster" not in key}
    assert notes == {"note": "x", "pinnace.io/run-requested": f"{uid} {stamp.isoformat()}Z"}
    assert made["metadata"]["labels"] == {"team": "shop", "by": "hand", "velero.io/schedule-name": "s"}
    assert made["spec"] == template
    assert "Schedule s is paused and stays so" in shown.err
    assert f'Backup request "{name}" submitted successfully.' in shown.err
    assert paused(cluster, "s") is True

    writes = len(cluster.writes())
    assert run(["schedule", "run", "s", "--dry-run=client", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"] == made["spec"]
    assert run(["schedule", "run", "nope"]) == 1
    assert 'schedules.velero.io "nope" not found' in capsys.readouterr().err
    assert run(["schedule", "run", "s", "--exit-code"]) == 1
    assert len(cluster.writes()) == writes


# --- get ------------------------------------------------------------------------------------------------


def test_schedules_are_listed_with_all_columns() -> None:
    fresh = daily(metadata={"name": "fresh"}, spec={"schedule": "@every 6h", "template": {}}, status=None)
    past = daily(status={"phase": "FailedValidation", "lastBackup": "2019-08-11T07:00:10Z"})
    past["spec"]["paused"] = True
    table = schedule_table(FakeClock(now=NOW))

    assert render_table([daily(), past, fresh], table, OutputFlags(format="table")) == textwrap.dedent("""\
        NAME    STATUS             CREATED                         SCHEDULE    BACKUP TTL   LAST BACKUP   SELECTOR    PAUSED
        daily   Enabled            2021-08-01 06:00:00 +0000 UTC   0 7 * * *   720h0m0s     14h ago       app=nginx   false
        daily   FailedValidation   2021-08-01 06:00:00 +0000 UTC   0 7 * * *   720h0m0s     2y ago        app=nginx   true
        fresh   New                <nil>                           @every 6h   0s           n/a           <none>      false
        """)  # noqa: E501 - the lines of the table


@pytest.mark.parametrize(
    ("notes", "cells"),
    [
        ({"missed-run": "no", "next-run": "{+5h}", "last-success": "{-19h}"}, ["19h ago", "5h", "no"]),
        ({"missed-run": "new", "next-run": "{+5h}"}, ["never", "5h", "new"]),
        ({"missed-run": "missed {-3h}", "next-run": "{-3h}"}, ["never", "3h ago", "yes"]),
        ({"missed-run": "no", "next-run": "{-3h}"}, ["never", "3h ago", "yes"]),  # its server is gone
        ({"missed-run": "running", "next-run": "{-3h}"}, ["never", "3h ago", "running"]),
        ({"missed-run": "paused"}, ["never", "n/a", "paused"]),
        # It was paused a moment ago, or its server is gone.
        ({"missed-run": "no", "next-run": "{-3h}", "last-success": "{-19h}"}, ["19h ago", "n/a", "paused"]),
    ],
)
def test_what_a_server_noted_of_the_runs_is_shown(notes: dict[str, str], cells: list[str]) -> None:
    def filled(note: str) -> str:
        return re.sub(
            r"\{([+-]\d+)h\}", lambda found: format_time(NOW + timedelta(hours=int(found[1]))), note
        )

    noted = daily(spec={"schedule": "@daily", "template": {}, "paused": cells[-1] == "paused"})
    noted["metadata"]["annotations"] = {f"pinnace.io/{name}": filled(note) for name, note in notes.items()}
    shown = render_table([noted], schedule_table(FakeClock(now=NOW)), OutputFlags(format="table"))
    header, row = (re.split(r" {2,}", line.strip()) for line in shown.splitlines())
    assert header[-3:] == ["LAST SUCCESS", "NEXT", "MISSED"]
    assert row[-3:] == cells


@pytest.mark.found("L4")
def test_a_last_backup_in_the_future_is_not_shown_as_a_past_one() -> None:
    ahead = daily(status={"phase": "Enabled", "lastBackup": "2021-09-14T07:00:10Z"})
    shown = render_table([ahead], schedule_table(FakeClock(now=NOW)), OutputFlags(format="table"))
    assert "   in 33d   " in shown


def test_get_prints_schedules_in_all_forms(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    assert run(["schedule", "get"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["schedule", "get", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "apiVersion": "velero.io/v1", "kind": "ScheduleList", "metadata": {}, "items": [],
    }  # fmt: skip

    for name in ("b", "a"):
        cluster.add(SCHEDULES, name, labels={"n": name}, spec={"schedule": "@daily", "template": {}})
    assert run(["get", "schedules", "-o", "name"]) == 0
    assert capsys.readouterr().out == "schedule.velero.io/a\nschedule.velero.io/b\n"
    assert run(["schedule", "get", "-l", "n!=b", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "a"
    assert run(["schedule", "get", "a", "b", "--show-labels"]) == 0
    header, first, _ = capsys.readouterr().out.splitlines()
    assert header.endswith("LAST BACKUP   SELECTOR   PAUSED   LABELS")
    assert first.endswith("n=a")
    assert run(["schedule", "get", "a", "nope"]) == 1
    shown = capsys.readouterr()
    error = 'An error occurred: schedules.velero.io "nope" not found; namespace velero has a, b\n'
    assert (shown.out, shown.err) == ("", error)


# --- describe -------------------------------------------------------------------------------------------

SAMPLE = """\
Name:         daily
Namespace:    velero
Labels:       team=shop
Annotations:  <none>

Phase:  Enabled

Schedule:  0 7 * * *

Backup Template:
  Namespaces:
    Included:  nginx
    Excluded:  <none>
..
  Resources:
    Included:        *
    Excluded:        <none>
    Cluster-scoped:  auto
..
  Label selector:  app=nginx
..
  Storage Location:  default
..
  Velero-Native Snapshot PVs:  auto
..
  TTL:  720h0m0s
..
  Hooks:  <none>

Last Backup:  2021-08-11 07:00:10 +0000 UTC""".replace("..", "  ")


@pytest.mark.spec("CLI-019")
def test_a_schedule_is_described_as_in_the_specification() -> None:
    schedule = daily()
    schedule["spec"]["template"]["ttl"] = "720h0m0s"

    assert describe_schedule(schedule, View()) == SAMPLE


def test_a_refused_schedule_has_phase_and_errors_in_red() -> None:
    refused = daily(status={"phase": "FailedValidation", "validationErrors": ["one", "two"]})
    lines = describe_schedule(refused, View(colour=True)).splitlines()

    assert lines[0] == "Name:         \x1b[1mdaily\x1b[0m"
    assert lines[5:10] == [
        "Phase:  \x1b[31mFailedValidation\x1b[0m",
        "",
        "Validation errors:  \x1b[31mone\x1b[0m",
        "                    \x1b[31mtwo\x1b[0m",
        "",
    ]
    assert lines[-1] == "Last Backup:  <never>"


@pytest.mark.parametrize(
    ("paused", "due", "state"),
    [(False, "2021-08-12 07:00:00 +0000 UTC", "yes"), (True, "<none>", "paused")],
)
def test_describe_shows_what_a_server_noted_of_the_runs(paused: bool, due: str, state: str) -> None:
    noted = daily(spec={"schedule": "0 7 * * *", "template": {}, "paused": paused})
    noted["metadata"]["annotations"] = {
        "pinnace.io/missed-run": "no",
        "pinnace.io/last-success": "2021-08-11T07:01:00Z",
        "pinnace.io/next-run": "2021-08-12T07:00:00Z",
    }
    assert describe_schedule(noted, View()).splitlines()[-3:] == [
        "Last Success:  2021-08-11 07:01:00 +0000 UTC",
        f"Next Run:      {due}",
        f"Missed Run:    {state}",
    ]


def test_describe_prints_the_named_or_all_schedules(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    assert run(["schedule", "describe"]) == 0
    assert capsys.readouterr().out == ""

    for name in ("a", "b"):
        cluster.add(SCHEDULES, name, spec={"schedule": "@daily", "template": {"ttl": "1h0m0s"}})
    assert run(["describe", "schedules"]) == 0
    first, second = capsys.readouterr().out.split("\n\n\n")
    assert first.startswith("Name:         a\n")
    assert second.startswith("Name:         b\n")
    assert first.endswith("Last Backup:  <never>")
    assert "Drawn" not in first
    assert run(["schedule", "describe", "nope"]) == 1
    cluster.add(
        SCHEDULES, "d", annotations={"pinnace.io/not-during": "08:00-18:00", "pinnace.io/catch-up": "none"},
        spec={"schedule": "@hourly-random", "paused": True},
    )  # fmt: skip
    capsys.readouterr()
    assert run(["schedule", "describe", "d"]) == 0
    shown = capsys.readouterr().out
    assert re.search(
        r"\nPaused:  true\n\nSchedule:    @hourly-random\nDrawn Time:  \d+ \* \* \* \*\n"
        r"Not During:  08:00-18:00\nCatch-Up:    none\n\n",
        shown,
    )
    cluster.add(SCHEDULES, "c", annotations={"a": "\x1b]0;title\x07"}, spec={"schedule": "@daily"})
    assert run(["schedule", "describe", "c", "--colorized", "true"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b[1mc\x1b[0m" in shown
    assert "a=\\x1b]0;title\\x07" in shown


# --- delete ---------------------------------------------------------------------------------------------


def test_delete_removes_the_chosen_schedules(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    for name in ("a", "b", "c"):
        cluster.add(SCHEDULES, name, labels={"n": name})

    assert run(["schedule", "delete", "a", "nope", "nada", "--confirm"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "Schedule deleted: a\n"
    assert shown.err == (
        "Deleting from cluster https://127.0.0.1:6443 (context test).\n"
        'An error occurred: [schedules.velero.io "nope" not found; namespace velero has a, b, c, '
        'schedules.velero.io "nada" not found; namespace velero has a, b, c]\n'
    )
    assert run(["delete", "schedules", "-l", "n in (b,x)", "--confirm"]) == 0
    assert run(["schedule", "delete", "--all", "--confirm"]) == 0
    assert run(["schedule", "delete", "--all", "--confirm"]) == 0
    assert capsys.readouterr().out == "Schedule deleted: b\nSchedule deleted: c\nNo schedules found\n"
    assert cluster.names(SCHEDULES) == []


@pytest.mark.spec("CLI-024")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "you must specify exactly one of: specific schedule name(s), the --all flag, or the --selector"),
        (["a", "--all"], "you must specify exactly one of: specific schedule name(s)"),
        (["--all", "-l", "a=b"], "you must specify exactly one of: specific schedule name(s)"),
        (["--selector", ""], "--selector must not be empty; use --all to delete all schedules"),
    ],
)
def test_delete_refuses_contradictory_ways_of_choosing(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str], text: str
) -> None:
    assert run(["schedule", "delete", *words, "--confirm"]) == 1
    assert text in capsys.readouterr().err
    assert cluster.writes() == []


@pytest.mark.spec("CLI-024")
def test_delete_asks_before_it_deletes(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    cluster.add(SCHEDULES, "a")
    for answer, code in (("n\n", 0), ("", 2)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        assert run(["schedule", "delete", "a"]) == code
        assert cluster.names(SCHEDULES) == ["a"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("x\nyes\nY\n"))
    capsys.readouterr()
    assert run(["schedule", "delete", "a"]) == 0
    question = "Are you sure you want to continue (Y/N)? "
    listed = "To be deleted:\n  schedule a (New)\n"
    assert capsys.readouterr().out == f"{listed}{question * 3}Schedule deleted: a\n"


# --- without a server -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["create", "s", "--schedule", "@daily"],
        ["create", "s", "--schedule", "@daily", "-o", "yaml"],
        ["get"],
        ["describe"],
        ["delete", "s"],
    ],
)
def test_schedule_commands_with_a_location_are_refused(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str]
) -> None:
    assert run(["--location", "./backups", "schedule", *words]) == 2
    assert f"`schedule {words[0]}` works on a server in the cluster" in capsys.readouterr().err


def test_a_cluster_without_the_kinds_is_an_error_that_names_install(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.unserved = {("schedules", "v1")}
    for words in (["get"], ["delete", "s", "--confirm"], ["create", "s", "--schedule", "@daily"]):
        assert run(["schedule", *words]) == 1
        assert "install it (`pinnace install --help`)" in capsys.readouterr().err

"""The alert rules and the dashboard's queries, by Prometheus and its tool: they fire when they should."""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from deploy.helm.monitoring import PANELS, rules
from hack.cluster import binaries
from pinnace.aio.clock import SystemClock
from pinnace.messages.delivery import Delivery, SinkFacts
from pinnace.messages.ledger import Entry, Ledger
from pinnace.messages.problem import Cause, Problem, Topic
from pinnace.messages.settings import AlertmanagerSettings
from pinnace.messages.sinks.opening import open_sink
from pinnace.runtime.manager import Health
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.server.monitoring.pages import StatusServer
from tests.support.waiting import eventually


def program(name: str, package: str = "prometheus") -> Path:
    # `hack/preflight.sh promtool` puts all of them into the cache where PATH has none.
    found = shutil.which(name, path=f"{os.environ['PATH']}:{binaries.cache_directory() / 'promtool'}")
    if not found:
        pytest.skip(f"there is no {name} in PATH; it is part of the package {package}")
    return Path(found)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return program("promtool")


def check(promtool: Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        [promtool, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_rules_and_queries_are_valid(promtool: Path, tmp_path: Path) -> None:
    queries = [query for _, _, queries in PANELS for query in queries]
    panels = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    groups = [*rules()["groups"], {"name": "dashboard", "rules": panels}]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": groups}))

    said = check(promtool, "check", "rules", "--lint=all", "--lint-fatal", path)
    assert f"{sum(len(group['rules']) for group in groups)} rules found" in said


def of(name: str, **labels: str) -> str:
    wanted = {"namespace": "velero", "schedule": "nightly", **labels}
    inside = ",".join(f'{key}="{value}"' for key, value in wanted.items() if value)
    return f"{name}{{{inside}}}"


RISES = "0+0x59 1+0x120"
"""Zero for an hour, then one."""
UP = ('pinnace_server_leads{namespace="velero"}', "1+0x200")
DAYS_9 = 9 * 4
"""In steps of six hours, which the cases of days take: minutes would take half a minute."""
EXPECTED = (of("pinnace_schedule_expected"), "1+0x200")
DEADLINE = of("pinnace_schedule_success_deadline_timestamp")
NIGHTLY = {"namespace": "velero", "schedule": "nightly"}


def newest(phase: str) -> tuple[str, str]:
    return of("pinnace_schedule_last_backup", phase=phase), "1+0x120"


CASES: dict[str, tuple[list[tuple[str, str]], str, str, dict[str, str] | None]] = {
    # series, when, alert, its labels besides the severity; None where it must not fire
    "no server": ([], "20m", "PinnaceServerAbsent", {}),
    "a server": ([UP], "20m", "PinnaceServerAbsent", None),
    "only standbys": (
        [('pinnace_server_leads{namespace="velero"}', "0+0x60"), (of("velero_backup_total"), "0+0x60")],
        "20m",
        "PinnaceServerAbsent",
        {},
    ),
    "another namespace's server": (
        [
            ('pinnace_server_leads{namespace="other"}', "1+0x60"),
            ('velero_backup_total{namespace="x"}', "1+0x60"),
        ],
        "20m",
        "PinnaceServerAbsent",
        {},
    ),
    "a failover": (
        [
            ('pinnace_server_leads{namespace="velero",pod="a"}', "1x10 _x50"),
            ('pinnace_server_leads{namespace="velero",pod="b"}', "0x12 1x50"),
        ],
        "20m",
        "PinnaceServerAbsent",
        None,
    ),
    "failed": ([UP, newest("Failed")], "1m", "PinnaceBackupFailed", {**NIGHTLY, "phase": "Failed"}),
    "failed validation": (
        [UP, newest("FailedValidation")],
        "1m",
        "PinnaceBackupFailed",
        {**NIGHTLY, "phase": "FailedValidation"},
    ),
    "killed, while another server of the pair goes on": (
        [
            UP,
            (
                'pinnace_schedule_last_backup{namespace="velero",schedule="nightly",phase="Failed",pod="b"}',
                "_x30 1x90",
            ),
        ],
        "40m",
        "PinnaceBackupFailed",
        {**NIGHTLY, "phase": "Failed"},
    ),
    "succeeded": ([UP, newest("Completed")], "65m", "PinnaceBackupFailed", None),
    "succeeded after a failure": (
        [
            UP,
            (of("pinnace_schedule_last_backup", phase="Failed"), "1x30 stale"),
            (of("pinnace_schedule_last_backup", phase="Completed"), "_x30 1x90"),
        ],
        "65m",
        "PinnaceBackupFailed",
        None,
    ),
    "unscheduled failed": (
        [
            UP,
            (of("velero_backup_failure_total", schedule=""), "0+0x120"),
            (of("velero_backup_validation_failure_total", schedule=""), RISES),
        ],
        "65m",
        "PinnaceUnscheduledBackupFailed",
        {"namespace": "velero"},
    ),
    "partially failed": (
        [UP, newest("PartiallyFailed")],
        "1m",
        "PinnaceBackupPartiallyFailed",
        {**NIGHTLY, "phase": "PartiallyFailed"},
    ),
    "missed": (
        [UP, EXPECTED, (of("pinnace_schedule_missed"), "0x30 1x90")],
        "65m",
        "PinnaceScheduleOverdue",
        NIGHTLY,
    ),
    "runs a little late": (
        [UP, EXPECTED, (of("pinnace_schedule_missed"), "0x62 1x1 0x70")],
        "65m",
        "PinnaceScheduleOverdue",
        None,
    ),
    "not valid": (
        [
            UP,
            (of("pinnace_schedule_overdue_seconds"), "0+60x120"),
            (of("pinnace_schedule_expected"), "0x120"),
        ],
        "65m",
        "PinnaceScheduleInvalid",
        NIGHTLY,
    ),
    "late and valid": (
        [UP, (of("pinnace_schedule_overdue_seconds"), "0+60x120"), EXPECTED],
        "65m",
        "PinnaceScheduleInvalid",
        None,
    ),
    "location away": (
        [
            UP,
            (
                'velero_backup_location_status_gauge{namespace="velero",backup_location_name="default"}',
                "1x30 0x60",
            ),
        ],
        "45m",
        "PinnaceLocationUnavailable",
        {"namespace": "velero", "backup_location_name": "default"},
    ),
    "location away for a moment": (
        [
            UP,
            (
                'velero_backup_location_status_gauge{namespace="velero",backup_location_name="default"}',
                "1x30 0x5 1x60",
            ),
        ],
        "45m",
        "PinnaceLocationUnavailable",
        None,
    ),
    "no success in time": (
        [UP, EXPECTED, (DEADLINE, f"{1.5 * 86400 + 600}x{DAYS_9}")],
        "9d",
        "PinnaceNoRecentBackup",
        NIGHTLY,
    ),
    "the last success is long ago and its schedule was deleted or paused": (
        [UP, (of("velero_backup_last_successful_timestamp"), f"0+0x{DAYS_9}")],
        "9d",
        "PinnaceNoRecentBackup",
        None,
    ),
    "a monthly schedule has time": (
        [
            UP,
            EXPECTED,
            (of("velero_backup_last_successful_timestamp"), f"0+0x{DAYS_9}"),
            (DEADLINE, f"{45 * 86400}x{DAYS_9}"),
        ],
        "9d",
        "PinnaceNoRecentBackup",
        None,
    ),
    "recent": (
        [UP, EXPECTED, (DEADLINE, f"130200+21600x{DAYS_9}")],
        "9d",
        "PinnaceNoRecentBackup",
        None,
    ),
    "a success in the future": (
        [UP, EXPECTED, (of("velero_backup_last_successful_timestamp"), f"{90 * 86400}x{DAYS_9}")],
        "9d",
        "PinnaceNoRecentBackup",
        NIGHTLY,
    ),
    "unsound": (
        [UP, (of("pinnace_backup_verification_sound"), "1x59 0x120")],
        "65m",
        "PinnaceBackupUnsound",
        {"namespace": "velero", "schedule": "nightly"},
    ),
    "sound": (
        [UP, (of("pinnace_backup_verification_sound"), "1x120")],
        "65m",
        "PinnaceBackupUnsound",
        None,
    ),
    "restore failed": (
        [UP, (of("velero_restore_failed_total"), RISES)],
        "65m",
        "PinnaceRestoreFailed",
        {"namespace": "velero"},
    ),
    "deletion failed": (
        [UP, (of("velero_backup_deletion_failure_total"), RISES)],
        "65m",
        "PinnaceDeletionFailed",
        {"namespace": "velero"},
    ),
    "messages lost": (
        [UP, ('pinnace_messages_total{namespace="velero",sink="velero/ops",result="lost"}', RISES)],
        "65m",
        "PinnaceMessagesLost",
        {"namespace": "velero", "sink": "velero/ops"},
    ),
    "snapshot failed": (
        [UP, (of("velero_volume_snapshot_failure_total"), RISES)],
        "65m",
        "PinnaceSnapshotFailed",
        {"namespace": "velero"},
    ),
}


@pytest.mark.found("L2")
def test_each_alert_fires_when_it_should_and_only_then(promtool: Path, tmp_path: Path) -> None:
    found = {rule["alert"]: rule for group in rules("velero")["groups"] for rule in group["rules"]}
    assert {alert for _, _, alert, labels in CASES.values() if labels is not None} == set(found)
    tests: dict[str, list[dict[str, Any]]] = {"1m": [], "6h": []}
    for case, (series, when, alert, labels) in CASES.items():
        rule = found[alert]
        summary = rule["annotations"]["summary"]
        for label, value in (labels or {}).items():
            summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
        fired = {"exp_labels": {**rule["labels"], **(labels or {})}, "exp_annotations": {"summary": summary}}
        step = "6h" if when == "9d" else "1m"
        tests[step].append(
            {
                "name": case,
                "interval": step,
                "input_series": [{"series": name, "values": values} for name, values in series],
                "alert_rule_test": [
                    {"eval_time": when, "alertname": alert, "exp_alerts": [] if labels is None else [fired]}
                ],
            }
        )
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules("velero")))
    for step, of_step in tests.items():
        path = tmp_path / f"tests-{step}.yaml"
        content = {"rule_files": ["rules.yaml"], "evaluation_interval": step, "tests": of_step}
        path.write_text(yaml.safe_dump(content))
        assert "SUCCESS" in check(promtool, "test", "rules", path)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


class Alertmanager:
    """A real one that tells nobody."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "alertmanager.yaml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        process = await asyncio.create_subprocess_exec(
            program("alertmanager", "prometheus-alertmanager"),
            f"--config.file={self._folder / 'alertmanager.yaml'}",
            f"--storage.path={self._folder / 'silences'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            assert process.returncode is None, "Alertmanager has ended: see whether its templates are there"
            process.terminate()
            await process.wait()

    async def active(self) -> dict[str, str]:
        """The names of the alerts that go on, with what each is about."""
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v2/alerts") as answer:
                alerts = await answer.json()
        except aiohttp.ClientError:
            return {"": "it has not begun to listen"}
        return {
            each["labels"]["alertname"]: each["labels"].get("name") or each["labels"].get("schedule") or ""
            for each in alerts
        }


class Prometheus:
    """A real one that scrapes and evaluates twice a second.

    Args:
        targets: ports by the namespace that the server on it is in.
        alertmanager: the port of the Alertmanager that is told; None for none.
    """

    def __init__(self, folder: Path, targets: dict[str, int], alertmanager: int | None = None) -> None:
        self._folder = folder
        groups = rules("velero")["groups"]
        for rule in (rule for group in groups for rule in group["rules"]):
            if "for" in rule:
                rule["for"] = "1s"
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        scraped = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": namespace}}
            for namespace, port in targets.items()
        ]
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "pinnace", "static_configs": scraped}],
        }
        if alertmanager is not None:
            told = {"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}
            config["alerting"] = {"alertmanagers": [told]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._port = free_port()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        process = await asyncio.create_subprocess_exec(
            program("prometheus"),
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.terminate()
            await process.wait()

    async def firing(self) -> set[tuple[str, str]]:
        """The names of the alerts that fire, and what they are about."""
        url = f"http://127.0.0.1:{self._port}/api/v1/alerts"
        try:
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                alerts = (await answer.json())["data"]["alerts"]
        except aiohttp.ClientError:
            return set()  # it has not begun to listen
        about = ("schedule", "backup_location_name")
        return {
            (alert["labels"]["alertname"], next(filter(None, map(alert["labels"].get, about)), ""))
            for alert in alerts
            if alert["state"] == "firing"
        }


@pytest.mark.found("L2")
async def test_a_real_prometheus_fires_the_alerts_of_bad_nights(tmp_path: Path) -> None:
    leads = {"velero": True, "other": True}
    pages = {name: ServerMetrics(leads=partial(leads.__getitem__, name)) for name in leads}
    ours = pages["velero"]
    ours.newest_backup("nightly", "Failed", exists=True)
    ours.newest_backup("weekly", "Completed", exists=True)
    ours.schedule_runs("hourly", expected=True, missed=True, succeed_by=None)
    # It was created and never succeeded: there is no series of a success.
    ours.schedule_runs("new", expected=True, missed=False, succeed_by=time.time() - 1)
    ours.location_status("default", available=False)
    health = Health(live=True, ready=True, detail="")
    servers = {
        name: StatusServer("127.0.0.1:0", metrics.exposition, lambda: health)
        for name, metrics in pages.items()
    }
    bad_night = {
        ("PinnaceBackupFailed", "nightly"),
        ("PinnaceScheduleOverdue", "hourly"),
        ("PinnaceNoRecentBackup", "new"),
        ("PinnaceLocationUnavailable", "default"),
    }
    async with asyncio.TaskGroup() as tasks:
        serving = [tasks.create_task(server.run()) for server in servers.values()]

        async def are_bound() -> bool:
            return all(server.bound_port for server in servers.values())

        await eventually(are_bound)
        prometheus = Prometheus(tmp_path, {name: server.bound_port or 0 for name, server in servers.items()})

        async def fires(wanted: set[tuple[str, str]]) -> None:
            async def as_wanted() -> bool:
                return await prometheus.firing() == wanted

            await eventually(as_wanted)

        async with prometheus.running():
            await fires(bad_night)
            leads["velero"] = False  # only a standby is left, while another namespace's server leads
            await fires({*bad_night, ("PinnaceServerAbsent", "")})
            leads["velero"] = True
            ours.newest_backup("nightly", "Completed", exists=True)
            ours.schedule_runs("hourly", expected=True, missed=False, succeed_by=None)
            ours.schedule_runs("new", expected=True, missed=False, succeed_by=time.time() + 900)
            ours.location_status("default", available=True)
            await fires(set())
        for task in serving:
            task.cancel()


async def test_a_real_alertmanager_takes_messages_and_alerts_and_they_end(tmp_path: Path) -> None:
    manager, clock = Alertmanager(tmp_path), SystemClock()
    topic = Topic(kind="Schedule", namespace="velero", name="nightly", schedule="nightly")
    problem = Problem(topic=topic, cause=Cause.MISSED_RUN, since=time.time() - 60, text="it is late")
    sink = open_sink(AlertmanagerSettings(url=manager.url, labels={"team": "storage"}))

    async def save(_ledger: Ledger) -> None:
        return

    # As if the sink had been told of it long ago: no five minutes between problem and recovery.
    ledger = Ledger(since=0.0, told={problem.key: Entry(problem=problem, at=0.0)})
    delivery = Delivery(sink, ledger, save, cluster="prod", clock=clock)
    ours = ServerMetrics(leads=lambda: True)
    ours.schedule_runs("hourly", expected=True, missed=False, succeed_by=time.time() - 1)
    health = Health(live=True, ready=True, detail="")
    server = StatusServer("127.0.0.1:0", ours.exposition, lambda: health)

    async def active_are(wanted: dict[str, str]) -> None:
        async def as_wanted() -> bool:
            return await manager.active() == wanted

        await eventually(as_wanted)

    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.run())

        async def is_bound() -> bool:
            return bool(server.bound_port)

        await eventually(is_bound)
        prometheus = Prometheus(tmp_path, {"velero": server.bound_port or 0}, manager.port)
        async with manager.running():
            await active_are({})
            outcome = await delivery.look(SinkFacts(problems={problem.key: problem}))
            assert outcome.error == ""
            await active_are({"PinnaceMissedRun": "nightly"})
            async with prometheus.running():
                await active_are({"PinnaceMissedRun": "nightly", "PinnaceNoRecentBackup": "hourly"})
                ours.schedule_runs("hourly", expected=True, missed=False, succeed_by=time.time() + 900)
                outcome = await delivery.look(SinkFacts(problems={}))
                assert (outcome.error, outcome.sent) == ("", 1)
                await active_are({})
        serving.cancel()

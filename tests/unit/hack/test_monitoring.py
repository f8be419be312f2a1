"""Alert rules and dashboard name only metrics that the server has."""

import re

from deploy.helm.monitoring import dashboard, rules
from pinnace.server.monitoring.metrics import ServerMetrics

NAME = re.compile(r"(?:velero|pinnace)_[a-z_]+")


def existing() -> set[str]:
    metrics = ServerMetrics()
    metrics.backup_finished("nightly", "Completed")
    metrics.backup_tarball_size("nightly", 1)
    metrics.backup_duration("nightly", 1)
    metrics.backup_last_successful("nightly", 1)
    metrics.backup_verified("nightly", 1, sound=True)
    metrics.newest_backup("nightly", "Completed", exists=True)
    metrics.schedule_overdue("nightly", 0)
    metrics.sink_seen("velero/ops")
    metrics.schedule_runs("nightly", expected=True, missed=False, succeed_by=1)
    metrics.location_status("default", available=True)
    return {sample.name for family in metrics.registry.collect() for sample in family.samples}


def test_every_rule_asks_for_metrics_that_exist_and_says_what_to_do() -> None:
    found = [rule for group in rules()["groups"] for rule in group["rules"]]

    assert len({rule["alert"] for rule in found}) == len(found)
    for rule in found:
        names = set(NAME.findall(rule["expr"]))
        assert names
        assert names <= existing(), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_every_panel_asks_for_metrics_that_exist() -> None:
    panels = dashboard()["panels"]

    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            assert set(NAME.findall(target["expr"])) <= existing()

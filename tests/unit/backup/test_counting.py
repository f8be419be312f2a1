"""Counting objects before they are listed, for the total of the progress only."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.meta import LabelSelector
from pinnace.backup import collecting, counting
from pinnace.backup.counting import countable
from pinnace.backup.plan import PlannedResource
from pinnace.kube.errors import status_error
from pinnace.kube.lists.pages import Page
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUMES, PODS, SECRETS, APIResource
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import a_backup, counted_ahead, run_backup, two_a_page


def planned(resource: APIResource, *namespaces: str) -> PlannedResource:
    return PlannedResource(resource=resource, namespaces=namespaces)


def test_only_as_many_lists_are_counted_as_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "REQUESTS", 3)
    first, named, last = planned(PODS, "a", "b"), planned(NAMESPACES), planned(SECRETS, "a", "b")

    assert countable([first, named, last]) == [first]


class SlowCluster(ScriptedCluster):
    """Its pods are listed only when everything that can be counted has been."""

    def __init__(self) -> None:
        super().__init__(page_size=2)
        self.is_counted = asyncio.Event()

    async def count(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str = ""
    ) -> int | None:
        try:
            return await super().count(resource, namespace, resource_version=resource_version)
        finally:
            if not resource_version:
                self.is_counted.set()

    async def list_pages(
        self, resource: APIResource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[Page, None]:
        if resource == PODS:
            await self.is_counted.wait()
            await asyncio.sleep(0)
        async for page in super().list_pages(resource, namespace, **options):
            yield page


def slow_cluster() -> SlowCluster:
    cluster = SlowCluster()
    cluster.add_all(PODS, "ns/a", "ns/b").add_all(PERSISTENT_VOLUMES, "v1", "v2", "v3")
    return cluster


async def at_once(_seconds: float) -> None:
    """A second that is over as soon as the first lists have begun."""
    await asyncio.sleep(0)


def totals(log: str) -> list[int]:
    return [int(found) for found in re.findall(r"estimated total of (\d+)", log)]


async def test_what_is_not_listed_yet_is_counted_once_a_backup_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "_pause", at_once)
    cluster = slow_cluster()
    outcome = await run_backup(tmp_path, cluster)

    assert ("persistentvolumes", "") in counted_ahead(cluster)
    assert ("pods", "") not in counted_ahead(cluster)
    assert totals(outcome.log) == [5] * 5
    assert outcome.result.progress.total_items == 5


async def test_what_cannot_be_counted_stays_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_pause", at_once)
    cluster = slow_cluster()
    cluster.refuse("count", "persistentvolumes", status_error(403, {"message": "you may not"}))
    outcome = await run_backup(tmp_path, cluster)

    assert totals(outcome.log)[0] == 2
    assert (outcome.errors, outcome.warnings, outcome.result.progress.total_items) == (0, 0, 5)


async def test_a_short_backup_counts_nothing(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(PODS, "ns/a").add_all(PERSISTENT_VOLUMES, "v1")
    await run_backup(tmp_path, cluster)
    assert counted_ahead(cluster) == []


async def test_what_labels_select_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_pause", at_once)
    cluster = two_a_page().add_all(PODS, "ns/a").add_all(PERSISTENT_VOLUMES, "v1")
    await run_backup(tmp_path, cluster, a_backup(label_selector=LabelSelector(match_labels={"a": "b"})))
    assert counted_ahead(cluster) == []

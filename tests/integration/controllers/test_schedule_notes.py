"""What a server notes of a Schedule as soon as it is there, paused or has run."""

import asyncio

from pinnace.api import labels
from pinnace.kube.resources import SCHEDULES
from tests.support.servers.sites import Serve, Site
from tests.support.waiting import eventually

SOON_SECONDS = 30.0
"""Far less than the minute after which a server looks at all Schedules."""


async def test_a_schedule_is_noted_at_once(site: Site, serve: Serve) -> None:
    await site.add_folder()
    await serve()
    await site.reached("backupstoragelocations", "default", "Available")

    async def noted(**wanted: str | None) -> None:
        async def is_noted() -> bool:
            notes = (await site.get("schedules", "s"))["metadata"].get("annotations", {})
            return all(
                notes.get(name) == value if value is None else (notes.get(name) or "").startswith(value)
                for name, value in wanted.items()
            )

        async with asyncio.timeout(SOON_SECONDS):
            await eventually(is_noted)

    await site.create("schedules", "s", spec={"schedule": "CRON_TZ=UTC 0 3 1 1 *", "template": {}})
    await noted(**{labels.MISSED_RUN: "new", labels.NEXT_RUN: "2"})

    for paused, state, due in ((True, "paused", None), (False, "new", "2")):
        await site.client.patch(SCHEDULES, "s", {"spec": {"paused": paused}}, site.namespace)
        await noted(**{labels.MISSED_RUN: state, labels.NEXT_RUN: due})

    metadata = {"metadata": {"annotations": {labels.NOT_DURING: "00:00-04:00"}}}
    await site.client.patch(SCHEDULES, "s", metadata, site.namespace)
    await eventually(lambda: _ends_with_window(site))


async def _ends_with_window(site: Site) -> bool:
    notes = (await site.get("schedules", "s"))["metadata"]["annotations"]
    return bool(notes[labels.NEXT_RUN].endswith("-01-01T04:00:00Z"))

"""The disk under a location goes away and comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from pinnace.api.values.times import parse_time
from tests.integration.scenario.fleet import Cluster, serving
from tests.support.clock import FakeClock
from tests.support.servers.sites import Site
from tests.support.waiting import POLL_SECONDS, eventually


def move(source: Path, target: Path) -> None:
    source.rename(target)


def is_there(folder: Path) -> bool:
    return folder.exists()


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@asynccontextmanager
async def passing(clock: FakeClock) -> AsyncIterator[None]:
    """Let time pass beside the test: work that failed is tried again only then."""

    async def pass_on() -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            clock.turn(1)

    turning = asyncio.create_task(pass_on())
    try:
        yield
    finally:
        turning.cancel()


async def test_backups_stay_while_their_folder_is_unmounted(site: Site) -> None:
    cluster = Cluster(site, FakeClock(now=datetime.now(UTC).replace(microsecond=0)))
    clock, away = cluster.clock, site.folder / "away"
    folder = await site.add_folder(default=True)

    async def looked_at() -> None:
        """Wait until the location was validated and synced again."""
        clock.turn(120)
        moment = clock.now()

        async def check() -> bool:
            location = await site.get("backupstoragelocations", "default")
            return parse_time(location["status"]["lastValidationTime"]) >= moment

        await eventually(check)

    async with serving(cluster), passing(clock):
        await site.create("backups", "before", spec=site.maps_of())
        await site.reached("backups", "before", "Completed")
        stored = files(folder)
        move(folder, away)

        await looked_at()
        location = (await site.get("backupstoragelocations", "default"))["status"]
        assert location["phase"] == "Unavailable"
        assert f"the directory {folder} does not exist: mount it" in location["message"]
        await site.create("backups", "meanwhile", spec=site.maps_of())
        refused = (await site.reached("backups", "meanwhile", "FailedValidation"))["status"]
        assert f"the directory {folder} does not exist" in refused["validationErrors"][0]
        backup = await site.reached("backups", "before", "Completed")
        marks = {"velero.io/backup-name": "before", "velero.io/backup-uid": backup["metadata"]["uid"]}
        await site.create("deletebackuprequests", "q", labels=marks, spec={"backupName": "before"})

        async def waits() -> bool:
            return bool(((await site.get("deletebackuprequests", "q")).get("status") or {}).get("errors"))

        await eventually(waits)
        assert await cluster.objects("backups") != {}
        assert not is_there(folder)
        assert files(away) == stored
        move(away, folder)

        await looked_at()
        await site.reached("backupstoragelocations", "default", "Available")
        clock.turn(600)
        await site.gone("backups", "before")
        await site.create("backups", "after", spec=site.maps_of())
        await site.reached("backups", "after", "Completed")
        assert {key.split("/")[1] for key in files(folder)} == {"after"}

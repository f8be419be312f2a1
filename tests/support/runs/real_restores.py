"""A backup of a real cluster, restored into it."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import orjson

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.archive.paths import item_path
from pinnace.archive.reader import ArchiveIndex
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.restore.cluster import ClusterAccess
from pinnace.restore.engine import RestoreEngine
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.preview.cluster import SimulatedCluster
from pinnace.restore.preview.kept import KeptObjects
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.results import Results
from tests.support.clock import FakeClock


class Numbers:
    """The last numbers published."""

    def __init__(self) -> None:
        self.last = (0, 0)

    async def publish(self, total_items: int, items_restored: int) -> None:
        self.last = (total_items, items_restored)


class RealRestore:
    """Writes items into an archive and restores it."""

    def __init__(self, client: KubeClient, directory: Path) -> None:
        self.client = client
        self.progress = Numbers()
        self.outcomes = ItemOutcomes()
        self.name = f"restore-{secrets.token_hex(3)}"
        self._directory = directory

    async def __call__(
        self,
        *items: JSONObject,
        options: RestoreSettings | None = None,
        modifiers: ResourceModifiers | None = None,
        is_dry_run: bool = False,
        **spec: Any,
    ) -> Results:
        """Restore items; the keywords are fields of the Restore's spec."""
        if is_dry_run:
            with KeptObjects(self._directory) as kept:
                simulated = SimulatedCluster(self.client, kept, ask_server=False)
                load = partial(simulated.discover, all_versions=False)
                client = cast(KubeClient, simulated)
                return await self._run(client, load, items, options, modifiers, spec)
        load = partial(Discovery.load, self.client)
        return await self._run(self.client, load, items, options, modifiers, spec)

    async def _run(
        self,
        client: KubeClient,
        load_discovery: Callable[[], Awaitable[Discovery]],
        items: tuple[JSONObject, ...],
        options: RestoreSettings | None,
        modifiers: ResourceModifiers | None,
        spec: dict[str, Any],
    ) -> Results:
        discovery = await load_discovery()
        archive = await self._archive(discovery, items)
        engine = RestoreEngine(
            ClusterAccess(
                client=client,
                discovery=discovery,
                load_discovery=load_discovery,
                is_simulated=client is not self.client,
            ),
            actions=restore_actions(client, discovery, "default"),
            log=RunLog(None, fields={}),
            progress=self.progress.publish,
            options=options,
        )
        metadata = ObjectMeta(name=self.name, namespace="default")
        restore = Restore(metadata=metadata, spec=RestoreSpec(backup_name="backup-1", **spec))
        with archive:
            self.outcomes = ItemOutcomes()
            request = RestoreRequest(restore=restore, backup=Backup(), modifiers=modifiers)
            return await engine.run(request, archive, self.outcomes)

    async def _archive(self, discovery: Discovery, items: tuple[JSONObject, ...]) -> ArchiveIndex:
        path = self._directory / f"{secrets.token_hex(4)}.tar.gz"
        async with ArchiveWriter(path, clock=FakeClock()) as writer:
            for item in items:
                writer.add(_path(discovery, item), orjson.dumps(item))
            await writer.close()
        return await ArchiveIndex.open(path, self._directory, with_other_versions=True)


def _path(discovery: Discovery, item: Mapping[str, Any]) -> str:
    resource = discovery.for_kind(item["apiVersion"], item["kind"])
    group = item["apiVersion"].rpartition("/")[0]
    # Kinds of definitions that are restored together with their objects are not known yet.
    plural = resource.name if resource else f"{item['kind'].lower()}s"
    group_resource = f"{plural}.{group}" if group else plural
    return item_path(group_resource, None, item["metadata"].get("namespace", ""), item["metadata"]["name"])

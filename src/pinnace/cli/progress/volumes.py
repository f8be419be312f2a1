"""Follows the volumes of a server's run, by the objects that its node agents update."""

import asyncio
from contextlib import aclosing
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import TransferPhase
from pinnace.cli.progress.state import Amount, Volume, number_in
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Gone, KubeError
from pinnace.kube.resources import (
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    APIResource,
)

_RESOURCES: Final = {
    "backup": (labels.BACKUP_NAME, (POD_VOLUME_BACKUPS, DATA_UPLOADS)),
    "restore": (labels.RESTORE_NAME, (POD_VOLUME_RESTORES, DATA_DOWNLOADS)),
}
NEXT_SECONDS: Final = 1.0
"""The pause after a watch that the server ended."""
PAUSE_SECONDS: Final = 5.0
"""The pause after a watch that failed, before the objects are listed again."""


class VolumeWatch:
    """The volumes of one backup or restore as last seen."""

    def __init__(self, what: str, name: str, namespace: str) -> None:
        label, self._resources = _RESOURCES[what]
        self._selector = f"{label}={labels.label_value(name)}"
        self._namespace = namespace
        self._seen: dict[tuple[str, str], JSONObject] = {}

    @property
    def moving(self) -> tuple[Volume, ...]:
        """The volumes whose transfer has not ended, those with the largest share done first."""
        volumes = [_volume(*found) for found in self._seen.items() if not _has_ended(found[1])]
        return tuple(sorted(volumes, key=lambda volume: (-volume.amount.share, volume.name)))

    @property
    def done(self) -> int:
        """How many volumes have ended."""
        return sum(map(_has_ended, self._seen.values()))

    @property
    def total(self) -> int:
        """How many volumes there are."""
        return len(self._seen)

    async def follow(self, client: KubeClient, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Follow the objects until cancelled. Objects that this user may not read are left out."""
        async with asyncio.TaskGroup() as group:
            for resource in self._resources:
                group.create_task(self._follow(client, resource, clock))

    async def _follow(self, client: KubeClient, resource: APIResource, clock: Clock) -> None:
        while True:
            try:
                await self._read(client, resource)
                await clock.sleep(NEXT_SECONDS)
            except Gone:
                continue
            except ConnectionFailed:
                await clock.sleep(PAUSE_SECONDS)
            except KubeError:  # the cluster does not serve it, or this user may not read it
                return

    async def _read(self, client: KubeClient, resource: APIResource) -> None:
        found, version = await client.list_with_version(
            resource, self._namespace, label_selector=self._selector
        )
        for key in [key for key in self._seen if key[0] == resource.name]:
            del self._seen[key]
        for obj in found:
            self._seen[resource.name, obj["metadata"]["name"]] = obj
        events = client.watch(
            resource, self._namespace, resource_version=version, label_selector=self._selector
        )
        async with aclosing(events):
            async for event in events:
                key = (resource.name, event.object["metadata"].get("name", ""))
                if event.type == "DELETED":
                    self._seen.pop(key, None)
                elif event.type != "BOOKMARK":
                    self._seen[key] = event.object


def _has_ended(obj: JSONObject) -> bool:
    return text(mapping(obj, "status"), "phase") in phases.TRANSFER_ENDED


def _volume(key: tuple[str, str], obj: JSONObject) -> Volume:
    status, spec = mapping(obj, "status"), mapping(obj, "spec")
    progress, phase = mapping(status, "progress"), text(status, "phase")
    return Volume(
        name=_name(spec) or key[1],
        phase=phase,
        waits_for=text(status, "message") if phase in ("", TransferPhase.NEW) else "",
        amount=Amount(done=number_in(progress, "bytesDone"), total=number_in(progress, "totalBytes")),
    )


def _name(spec: JSONObject) -> str:
    """`namespace/pod volume` of a pod's volume, `namespace/claim` of a claim's snapshot."""
    if pod := mapping(spec, "pod"):
        return f"{text(pod, 'namespace')}/{text(pod, 'name')} {text(spec, 'volume')}"
    if target := mapping(spec, "targetVolume"):
        return f"{text(target, 'namespace')}/{text(target, 'pvc')}"
    if claim := text(spec, "sourcePVC"):
        return f"{text(spec, 'sourceNamespace')}/{claim}"
    return ""

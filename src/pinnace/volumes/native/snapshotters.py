"""The providers of native volume snapshots, opened by the names of their locations.

A snapshotter is a plugin of the provider, or looks like one; nothing here knows a cloud. (docs/spec: PLG 7.2)
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation, VolumeSnapshotLocationSpec
from pinnace.api.velero.storage_location import SecretKeySelector
from pinnace.kube.errors import KubeError
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import VOLUME_SNAPSHOT_LOCATIONS
from pinnace.storage.credentials_store import IGNORED_FILE, NAMED_FILE

ResultT = TypeVar("ResultT")


class SnapshotError(Exception):
    """A location, its provider or the provider's work failed; the text says which."""


class VolumeProperties(Protocol):
    """The properties that are needed to make a volume like another."""

    @property
    def volume_type(self) -> str: ...

    @property
    def iops(self) -> int | None: ...


class Snapshotter(Protocol):
    """The abilities of a provider's plugin. It may raise anything; its id of a foreign volume is empty."""

    async def init(self, config: Mapping[str, str]) -> None: ...

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str: ...

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeProperties: ...

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str: ...

    async def delete_snapshot(self, snapshot_id: str) -> None: ...

    async def get_volume_id(self, persistent_volume: JSONObject) -> str: ...

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject: ...


@runtime_checkable
class SnapshotLookup(Protocol):
    """A snapshotter that can look up snapshots; the protocol of plugin programs has no such call."""

    async def has_snapshot(self, snapshot_id: str) -> bool:
        """Whether the snapshot exists and has not failed. Nothing is changed."""
        ...


FindSnapshotter = Callable[[str], Snapshotter]
"""The snapshotter of a provider, not initialised; a new object each time. It may raise anything."""


SaveCredential = Callable[[SecretKeySelector], Awaitable[Path]]
"""Writes a key of a Secret to a private file, and returns it. Raises StorageError."""


class Snapshotters:
    """The snapshotters of one backup, restore or deletion: one for each location, made when first asked for.

    One that could not be made is tried again the next time. (docs/spec: BKP 10)
    """

    def __init__(
        self,
        client: ObjectReader,
        namespace: str,
        find: FindSnapshotter,
        *,
        credentials: SaveCredential | None = None,
    ) -> None:
        """`credentials` writes those of locations to files; without it such locations are refused."""
        self._client = client
        self._namespace = namespace
        self._find = find
        self._credentials = credentials
        self._ready: dict[str, Snapshotter] = {}
        self._lock = asyncio.Lock()

    async def of(self, location: str) -> Snapshotter:
        """The snapshotter of a location, configured. Raises SnapshotError."""
        async with self._lock:
            if location not in self._ready:
                spec = (await self._location(location)).spec
                ignored = f" ({IGNORED_FILE})" if NAMED_FILE in spec.config else ""
                what = f"volume snapshot location {location}{ignored}"
                self._ready[location] = await called(self._open(spec), what)
            return self._ready[location]

    async def _location(self, name: str) -> VolumeSnapshotLocation:
        try:
            obj = await self._client.get(VOLUME_SNAPSHOT_LOCATIONS, name, self._namespace)
            return decode(VolumeSnapshotLocation, obj)
        except (KubeError, DecodeError) as error:
            raise SnapshotError(f"error getting volume snapshot location {name}: {error}") from error

    async def _open(self, spec: VolumeSnapshotLocationSpec) -> Snapshotter:
        config = dict(spec.config)
        config.pop(NAMED_FILE, None)
        if spec.credential is not None and spec.credential.name:
            if self._credentials is None:
                raise SnapshotError("its credential can be used only by a server")
            # Velero passes them to plugins in the same way. (docs/spec: BEY 7.4)
            config[NAMED_FILE] = str(await self._credentials(spec.credential))
        snapshotter = self._find(spec.provider)
        await snapshotter.init(config)
        return snapshotter


async def called(call: Awaitable[ResultT], what: str) -> ResultT:
    """The answer of a provider. Raises SnapshotError that begins with `what`."""
    try:
        return await call
    except Exception as error:
        # Foreign code: whatever it raises fails this call only.
        raise SnapshotError(f"{what}: {error}") from error


async def created_id(call: Awaitable[str], what: str) -> str:
    """The id of what a provider has made. Raises SnapshotError, also if the provider gives none."""
    found = await called(call, what)
    if not found:
        raise SnapshotError(f"{what}: the provider gave no id for it")
    return found

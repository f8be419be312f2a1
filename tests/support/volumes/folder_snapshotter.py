"""A provider of native snapshots: persistent volumes are folders of this machine, snapshots are copies.

It knows volumes of the sources hostPath and local. A location's config names the folder for copies
(`directory`) and, optionally, the only volumes it knows (`volumes`, a folder above them).
"""

import asyncio
import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from pinnace.api.objects import JSONObject
from pinnace.plugins import PluginError, Plugins, VolumeInfo, check_config_keys

NAME = "example.io/folder"
VOLUME_TYPE = "folder"


class FolderSnapshotter:
    """Copies folders."""

    name = NAME

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._volumes = ""

    async def init(self, config: Mapping[str, str]) -> None:
        check_config_keys(config, ("directory", "volumes"))
        if "directory" not in config:
            raise PluginError("the location's config lacks `directory`")
        self._directory = Path(config["directory"])
        self._volumes = config.get("volumes", "")

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        if volume_type != VOLUME_TYPE:
            raise PluginError(f"cannot make a volume of type {volume_type}")
        volume = self._folder("volumes") / f"from-{uuid.uuid4()}"
        await self._copy(self._snapshot(snapshot_id) / "data", volume)
        return str(volume)

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        return VolumeInfo(volume_type=VOLUME_TYPE)

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        snapshot_id = f"snap-{uuid.uuid4()}"
        snapshot = self._folder("snapshots") / snapshot_id
        await self._copy(Path(volume_id), snapshot / "data")
        (snapshot / "tags.json").write_text(json.dumps({**tags, "zone": volume_az}))
        return snapshot_id

    async def delete_snapshot(self, snapshot_id: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._snapshot(snapshot_id))

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        path = str(self._source(persistent_volume).get("path", ""))
        return path if path.startswith(self._volumes) else ""

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        self._source(persistent_volume)["path"] = volume_id
        return persistent_volume

    def _source(self, volume: JSONObject) -> JSONObject:
        spec = volume["spec"]
        found: JSONObject = spec.get("hostPath") or spec.get("local") or {}
        return found

    def _folder(self, name: str) -> Path:
        assert self._directory is not None, "init comes first"
        return self._directory / name

    def _snapshot(self, snapshot_id: str) -> Path:
        found = self._folder("snapshots") / snapshot_id
        if not found.is_dir():
            raise PluginError(f"there is no snapshot {snapshot_id}")
        return found

    async def _copy(self, source: Path, target: Path) -> None:
        try:
            await asyncio.to_thread(shutil.copytree, source, target)
        except FileNotFoundError as error:
            raise PluginError(f"there is no volume {source}") from error


plugins = Plugins(volume_snapshotters=[FolderSnapshotter])

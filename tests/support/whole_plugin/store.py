"""An object store in a folder."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from pinnace.plugins import PluginError, check_config_keys

NAME = "example.io/folder"
BLOCK_BYTES = 1 << 16


class FolderStore:
    """A bucket is a folder below `root` of the location's config; a key is a file's path in it."""

    name = NAME

    def __init__(self) -> None:
        self._root: Path | None = None

    async def init(self, config: Mapping[str, str]) -> None:
        check_config_keys(config, ("root",), object_store=True)
        if "root" not in config:
            raise PluginError("the location's config lacks `root`")
        self._root = Path(config["root"])

    async def put_object(self, bucket: str, key: str, body: AsyncIterator[bytes]) -> None:
        path = self._path(bucket, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        with part.open("wb") as file:
            async for block in body:
                await asyncio.to_thread(file.write, block)
        part.rename(path)

    async def object_exists(self, bucket: str, key: str) -> bool:
        return self._path(bucket, key).is_file()

    async def get_object(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        if not await self.object_exists(bucket, key):
            raise PluginError("key not found")
        with self._path(bucket, key).open("rb") as file:
            while block := await asyncio.to_thread(file.read, BLOCK_BYTES):
                yield block

    async def list_common_prefixes(self, bucket: str, prefix: str, delimiter: str) -> Sequence[str]:
        rests = (key[len(prefix) :] for key in await self.list_objects(bucket, prefix))
        return sorted(
            {prefix + rest.partition(delimiter)[0] + delimiter for rest in rests if delimiter in rest}
        )

    async def list_objects(self, bucket: str, prefix: str) -> Sequence[str]:
        folder = self._path(bucket)
        files = (path for path in folder.rglob("*") if path.is_file())
        keys = (path.relative_to(folder).as_posix() for path in files)
        # What begins with a point is being written, also by a Pinnace that uses the folder as its location.
        return sorted(key for key in keys if key.startswith(prefix) and "/." not in f"/{key}")

    async def delete_object(self, bucket: str, key: str) -> None:
        self._path(bucket, key).unlink(missing_ok=True)

    async def create_signed_url(self, bucket: str, key: str, ttl: timedelta) -> str:
        return self._path(bucket, key).as_uri()

    def _path(self, bucket: str, key: str = "") -> Path:
        assert self._root is not None, "init comes first"
        return self._root / bucket / key

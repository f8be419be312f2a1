"""Previews of restores into the world of the engine's tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.kube.discovery import Discovery
from pinnace.operations.preview import BackupContents, Preview, PreviewSettings, preview_restore
from pinnace.runs.activity import Activity
from tests.unit.restore.world import Harness, tarball_of, with_records


class Foresee(Protocol):
    """Preview a restore of items and raw files; further keywords are fields of the Restore's spec."""

    async def __call__(
        self,
        *items: JSONObject,
        ask_server: bool = False,
        by_server: bool = True,
        files: Mapping[str, bytes] | None = None,
        activity: Activity | None = None,
        **spec: object,
    ) -> Preview: ...


def foreseer(harness: Harness, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Foresee:
    """Previews into the world of a harness."""

    async def load(*_: object, **__: object) -> Discovery:
        return await harness.load_discovery()

    monkeypatch.setattr(Discovery, "load", load)

    async def foresee(
        *items: JSONObject,
        ask_server: bool = False,
        by_server: bool = True,
        files: Mapping[str, bytes] | None = None,
        activity: Activity | None = None,
        **spec: object,
    ) -> Preview:
        restore = Restore(
            metadata=ObjectMeta(name="restore-1", namespace="velero"),
            spec=RestoreSpec(backup_name="backup-1", **spec),  # type: ignore[arg-type]
        )
        contents = BackupContents(
            backup=harness.backup,
            tarball=await tarball_of(folder, items, files=files),
            **with_records(harness.request_fields),
        )
        settings = PreviewSettings(
            log=harness.log,
            folder=folder,
            namespace="velero",
            by_server=by_server,
            ask_server=ask_server,
            activity=activity or Activity(),
        )
        return await preview_restore(harness.world.client, restore, contents, settings)

    return foresee

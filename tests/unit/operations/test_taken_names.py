"""Why a restore without a server may not have a name: what is there under it, and what to do."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.operations.local import LocalRun, NameTaken
from pinnace.operations.local_restore import make_restore
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store

RECORD = b'{"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"name":"r"},"spec":{"backupName":"b"}}'


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("restore-r-logs.gz", b"", "without its record: it was killed, .* `restore delete r`"),
        ("velero-restore.json", RECORD, "is in the location already; choose another name or delete it"),
        ("velero-restore.json", b"{", "its record is damaged"),
    ],
    ids=["killed", "recorded", "damaged"],
)
async def test_the_error_of_a_taken_name_says_what_has_it(
    tmp_path: Path, file: str, content: bytes, said: str
) -> None:
    folder = tmp_path / "restores/r"
    folder.mkdir(parents=True)
    (folder / file).write_bytes(content)
    location = location_from_url(str(tmp_path), namespace="velero")
    restore = Restore(metadata=ObjectMeta(name="r", namespace="velero"), spec=RestoreSpec(backup_name="b"))
    async with open_backup_store(location) as store:
        nothing: Any = None
        run = LocalRun(client=nothing, location=location, store=store)
        with pytest.raises(NameTaken, match=said):
            await make_restore(run, restore)

"""What the owner of a bucket writes into it is made known for that tenant only. (docs/spec: NAC A14, A34)"""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.controllers.sync.synced import Refused, backup_object, pod_volume_backup_object
from pinnace.nonadmin.identity import marks
from pinnace.runtime.keys import Key

NOW = datetime(2021, 8, 11, tzinfo=UTC)


def stored(namespace: str = "evil", unique_id: str = "evil-x-id", **changes: Any) -> bytes:
    marked = marks(Origin.BACKUP, unique_id, Key(namespace, "x"))
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": "whatever", **marked},
        "spec": {"includedNamespaces": ["evil"]},
        "status": {"phase": "Completed"},
        **changes,
    }
    return orjson.dumps(backup)


def synced(data: bytes, tenant: str = "evil") -> JSONObject:
    body = backup_object(
        data,
        name="evil-x-id",
        location="l",
        namespace="velero",
        now=NOW,
        schedule_uid=lambda _: None,
        tenant=tenant,
    )
    parsed: JSONObject = orjson.loads(body)
    return parsed


def test_an_honest_backup_of_the_tenant_passes() -> None:
    assert synced(stored())["metadata"]["name"] == "evil-x-id"


@pytest.mark.spec("NAC-049", "NAC-060")
@pytest.mark.parametrize(
    "data",
    [
        stored("victim"),
        stored(unique_id="victim-x-id"),
        stored(spec={"includedNamespaces": ["*"]}),
        stored(spec={"includedNamespaces": ["evil", "victim"]}),
        stored(spec={}),
        stored(metadata={"name": "plain"}),
        stored(status={"phase": "New"}),
        stored(status={}),
    ],
    ids=["origin", "id", "all", "two", "none", "unmarked", "new", "empty"],
)
def test_a_forged_backup_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        synced(data)


def test_the_administrators_location_holds_any_backup() -> None:
    assert synced(stored("victim"), tenant="")["metadata"]["name"] == "evil-x-id"


def volume(namespace: str, phase: str = "Completed") -> JSONObject:
    return {
        "metadata": {"name": "pvb", "labels": {"velero.io/backup-name": "victims"}},
        "spec": {"node": "n", "pod": {"namespace": namespace, "name": "p"}, "backupStorageLocation": "other"},
        "status": {"phase": phase},
    }


def made(raw: JSONObject) -> JSONObject:
    _, body = pod_volume_backup_object(
        raw, backup="evil-x-id", backup_uid="u", location="l", namespace="velero", tenant="evil"
    )
    parsed: JSONObject = orjson.loads(body)
    return parsed


@pytest.mark.spec("NAC-061")
def test_pod_volume_backups() -> None:
    with pytest.raises(Refused):
        made(volume("evil", "New"))
    with pytest.raises(Refused):
        made(volume("victim"))
    own = made(volume("evil"))
    assert own["metadata"]["labels"]["velero.io/backup-name"] == "evil-x-id"
    assert own["spec"]["backupStorageLocation"] == "l"

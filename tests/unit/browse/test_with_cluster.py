"""A stored backup compared with a cluster."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.selection.names import IncludesExcludes
from pinnace.browse.choosing import Choice
from pinnace.browse.differences import ADDED, CHANGED, REMOVED, LiveCluster, Rules, differences
from pinnace.browse.errors import BrowseError
from pinnace.browse.stored import StoredBackup
from pinnace.kube.errors import Forbidden, status_error
from pinnace.kube.resources import CONFIGMAPS, SECRETS
from pinnace.operations.verification.whole import StoreFiles
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.stores.indexed_backups import config_map, secret, store
from tests.unit.backup.fakes import discovery_of

STORED = [
    config_map("changed", a="1"),
    config_map("gone"),
    config_map("same"),
    secret("same", password="x"),
]


async def compared(folder: Path, cluster: ScriptedCluster, **choice: Any) -> list[tuple[str, str, str, str]]:
    """Return what differs: resource, namespace, name, and how."""
    files = StoreFiles(BackupStore(FilesystemStore(folder), Layout(""), location="default"), "b1")
    backup = StoredBackup("b1", files, folder / "work", lambda _: None)
    live = LiveCluster(client=cluster.client, discovery=discovery_of([CONFIGMAPS, SECRETS]), spec={})
    found = await differences(backup, live, Choice(**choice), Rules())
    return [(each.resource, each.namespace, each.name, each.what) for each in found.differences]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    store(tmp_path, "b1", STORED)
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.fixture
def cluster() -> ScriptedCluster:
    made = ScriptedCluster(page_size=2)
    for obj in (STORED[0] | {"data": {"a": "2"}}, *STORED[2:], config_map("new"), config_map("new", "blog")):
        made.put(obj)
    return made


SHOP = [
    ("configmaps", "shop", "changed", CHANGED),
    ("configmaps", "shop", "gone", REMOVED),
    ("configmaps", "shop", "new", ADDED),
]


async def test_what_was_added_removed_and_changed_since(stored: Path, cluster: ScriptedCluster) -> None:
    assert await compared(stored, cluster) == SHOP


async def test_what_is_being_deleted_was_not_added(stored: Path, cluster: ScriptedCluster) -> None:
    cluster.add(CONFIGMAPS, "going", "shop", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.io/x"])
    assert await compared(stored, cluster) == SHOP


async def test_a_list_that_expires_gives_nothing_twice(stored: Path, cluster: ScriptedCluster) -> None:
    cluster.offers_tokens = False

    def expire(verb: str, *_: str) -> None:
        if verb == "page" and not any(each.verb == "page" for each in cluster.requests[:-1]):
            cluster.add(SECRETS, "later", "blog")
            cluster.compact()

    cluster.before = expire
    assert await compared(stored, cluster) == SHOP


async def test_only_the_chosen_namespaces_are_listed(stored: Path, cluster: ScriptedCluster) -> None:
    assert await compared(stored, cluster, namespaces=IncludesExcludes(["shop"])) == SHOP
    assert {each.namespace for each in cluster.requests} == {"shop"}


async def test_a_kind_that_is_not_served_any_more_is_removed(
    stored: Path, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "SECRETS", CONFIGMAPS)
    assert ("secrets", "shop", "same", REMOVED) in await compared(stored, cluster)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (Forbidden(403, message="no"), "no; --exclude-resources configmaps leaves them out"),
        (status_error(500, {"message": "etcd is gone"}), "etcd is gone"),
    ],
)
async def test_a_list_that_is_refused_is_an_error_that_names_the_kind(
    stored: Path, cluster: ScriptedCluster, error: Any, advice: str
) -> None:
    cluster.refuse("list", "configmaps", error)
    with pytest.raises(BrowseError) as raised:
        await compared(stored, cluster)
    assert str(raised.value).endswith(f"cannot list configmaps in the cluster: {advice}")

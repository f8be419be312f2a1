"""The providers whose snapshotters and stores are built in are those that lists of plugins name."""

import pytest

from pinnace.storage.errors import StorageError
from pinnace.storage.open import open_object_store
from pinnace.storage.providers import PROVIDERS
from pinnace.volumes.disks import BUILT_IN_SNAPSHOTTERS, with_disks
from pinnace.volumes.native.snapshotters import Snapshotter


def nothing_else(provider: str) -> Snapshotter:
    raise LookupError(provider)


@pytest.mark.parametrize("name", BUILT_IN_SNAPSHOTTERS)
def test_every_listed_snapshotter_exists(name: str) -> None:
    find = with_disks(nothing_else)

    assert type(find(name)) is type(find(name.removeprefix("velero.io/")))
    with pytest.raises(LookupError, match=r"example\.io/other"):
        find("example.io/other")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_listed_store_exists(name: str) -> None:
    with pytest.raises(StorageError) as raised:  # which setting is missing does not matter here
        open_object_store(name, {"nonsense": "1"}, environ={})

    assert "unable to locate" not in str(raised.value)

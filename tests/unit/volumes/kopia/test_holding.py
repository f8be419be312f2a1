"""How long kopia holds what it stores, by the settings of the location."""

import pytest

from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
)
from pinnace.volumes.kopia.places import RepositoryHold, hold_of
from pinnace.volumes.uploader.errors import IdentifierError


def location(provider: str, **lock: str) -> BackupStorageLocation:
    config = {f"objectLock.{name}": value for name, value in lock.items()}
    return BackupStorageLocation(spec=BackupStorageLocationSpec(provider=provider, config=config))


@pytest.mark.parametrize(
    ("provider", "mode", "until", "hours"),
    [
        ("aws", "governance", "96h", 96),
        ("velero.io/aws", "compliance", "95h30m", 96),
        ("aws", "governance", "expiration", 720),
        ("azure", "compliance", "96h", 96),
        ("gcp", "compliance", "96h", 96),
    ],
)
def test_a_repository_is_held_as_its_location_asks(provider: str, mode: str, until: str, hours: int) -> None:
    assert hold_of(location(provider, mode=mode, until=until)) == RepositoryHold(mode=mode, hours=hours)
    assert hold_of(location(provider)) is None


@pytest.mark.parametrize("provider", ["azure", "velero.io/azure", "gcp", "velero.io/gcp"])
def test_kopia_would_hold_more_than_governance_where_it_knows_one_mode(provider: str) -> None:
    with pytest.raises(IdentifierError, match=r"is governance, and kopia holds files in Azure"):
        hold_of(location(provider, mode="governance", until="96h"))

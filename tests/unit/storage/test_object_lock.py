"""What a location asks for by its settings of object lock, and what a file is put with."""

from datetime import timedelta

import pytest

from pinnace.nonadmin.specs.location import ALLOWED_CONFIG
from pinnace.storage.location_url import location_from_url
from pinnace.storage.object_lock import LockMode, ObjectLock, Retention, object_lock_of
from pinnace.storage.open import store_config
from tests.support.clock import START

COMPLIANCE = LockMode.COMPLIANCE


def test_the_settings_come_from_a_url_and_the_store_does_not_get_them() -> None:
    location = location_from_url("s3://b/p?objectLock.mode=compliance&objectLock.until=48h&region=r")

    assert object_lock_of(location.spec.config) == ObjectLock(mode=COMPLIANCE, period=timedelta(days=2))
    assert store_config(location) == {"region": "r", "bucket": "b", "prefix": "p"}


def test_tenants_may_hold_their_own_backups() -> None:
    for allowed in ALLOWED_CONFIG.values():
        assert {"objectLock.mode", "objectLock.until"} <= set(allowed)


@pytest.mark.parametrize(
    ("period", "expires", "held"),
    [
        (None, timedelta(hours=5), timedelta(hours=5)),
        (None, timedelta(seconds=1, microseconds=1), timedelta(seconds=2)),
        (None, timedelta(seconds=-1), None),
        (None, None, None),
        (timedelta(hours=1), timedelta(hours=5), timedelta(hours=1)),
        (timedelta(hours=1), None, timedelta(hours=1)),
    ],
    ids=["expiration", "rounded up", "expired", "never expires", "period", "period alone"],
)
def test_a_file_is_held_until_its_backup_expires_or_for_a_period(
    period: timedelta | None, expires: timedelta | None, held: timedelta | None
) -> None:
    lock = ObjectLock(mode=COMPLIANCE, period=period)

    found = lock.retention(None if expires is None else START + expires, START)

    assert found == (None if held is None else Retention(mode=COMPLIANCE, until=START + held))

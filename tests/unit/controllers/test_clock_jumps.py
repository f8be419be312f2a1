"""What is done periodically, after the clock of the server has jumped. All of it is noted in times of day."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup_repository import (
    BackupRepository,
    BackupRepositorySpec,
    BackupRepositoryStatus,
)
from pinnace.controllers import repository_maintenance, storage_location
from pinnace.controllers.sync import synced

LAST: Final = datetime(2021, 8, 11, 12, 0, tzinfo=UTC)
HOUR: Final = Duration.parse("1h0m0s")


def maintenance_is_due(last: datetime, period: Duration, now: datetime) -> bool:
    spec = BackupRepositorySpec(maintenance_frequency=period, repository_type="kopia")
    status = BackupRepositoryStatus(last_maintenance_time=last)
    return repository_maintenance.is_due(BackupRepository(spec=spec, status=status), now)


IS_DUE: Final[dict[str, Callable[[datetime, Duration, datetime], bool]]] = {
    "validation of a location": storage_location.is_due,
    "sync of a location": synced.is_due,
    "maintenance of a repository": maintenance_is_due,
}


@pytest.mark.parametrize("work", IS_DUE)
@pytest.mark.parametrize(
    ("jump", "expected"),
    [
        (timedelta(days=1), True),
        (timedelta(days=-1), True),
        (timedelta(minutes=5), False),
        (timedelta(minutes=-5), False),
    ],
    ids=str,
)
def test_a_jump_of_a_day_ends_no_periodic_work_and_a_small_one_brings_none_forward(
    work: str, jump: timedelta, expected: bool
) -> None:
    assert IS_DUE[work](LAST, HOUR, LAST + jump) is expected

"""What the log of a backup says about objects that its filters leave out."""

import io

import pytest

from pinnace.archive.runlog import RunLog
from pinnace.backup.filters import ExcludedItems


@pytest.mark.parametrize(
    ("kind", "of_tenant", "warnings"),
    [
        ("priorityclasses.scheduling.k8s.io", True, 0),
        ("priorityclasses.scheduling.k8s.io", False, 1),
        ("secrets", True, 1),
    ],
    ids=["left out by self-service", "left out by an administrator", "left out by the tenant"],
)
def test_what_self_service_leaves_out_of_every_backup_is_told_but_no_warning(
    kind: str, of_tenant: bool, warnings: int
) -> None:
    excluded, written = ExcludedItems(), io.StringIO()
    excluded.add(kind, "urgent")

    with RunLog(None, fields={}, echo=written) as log:
        excluded.warn(log, of_tenant=of_tenant)

    assert log.warnings == warnings
    assert "1 object(s) that others in this backup refer to are left out by its filters" in written.getvalue()

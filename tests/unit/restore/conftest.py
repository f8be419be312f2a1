"""What the tests of the restore engine share."""

from pathlib import Path

import pytest

from tests.unit.restore.world import (
    Harness,
)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """An engine before an empty cluster."""
    return Harness(tmp_path)

"""What the tests of the restore engine share."""

from tests.unit.restore.world import harness as harness

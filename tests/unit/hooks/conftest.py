"""The fixtures that these tests share with those of the restore engine."""

from tests.unit.restore.world import harness as harness

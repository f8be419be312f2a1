"""The fixtures of the tests of the restore engine."""

from tests.unit.restore.world import harness as harness

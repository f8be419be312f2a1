"""Fixtures that are shared with the tests of the restore engine."""

from tests.unit.restore.world import harness as harness

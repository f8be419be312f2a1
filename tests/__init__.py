"""Tests; assertions in what they share are explained as their own are, wherever it is imported first."""

import pytest

pytest.register_assert_rewrite("tests.support", "tests.integration.faults.world")

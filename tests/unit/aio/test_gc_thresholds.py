"""The garbage collector's thresholds are raised for the time of a run only."""

import gc

import pytest

from pinnace.aio.gc_thresholds import raised_gc_thresholds


def test_thresholds_return_when_the_last_user_leaves() -> None:
    before = gc.get_threshold()
    with raised_gc_thresholds():
        raised = gc.get_threshold()
        assert raised[0] > before[0]
        with raised_gc_thresholds():
            assert gc.get_threshold() == raised
        assert gc.get_threshold() == raised
    assert gc.get_threshold() == before


def test_thresholds_return_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), raised_gc_thresholds():
        raise KeyError
    assert gc.get_threshold() == before

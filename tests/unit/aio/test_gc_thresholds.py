"""The garbage collector's thresholds are raised for the time of a run only."""

import gc

import pytest

from pinnace.aio.gc_thresholds import collect_as_usual, collect_rarely, raised_gc_thresholds


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


def test_a_process_that_stays_collects_as_before_and_leaves_out_what_is_loaded() -> None:
    before = gc.get_threshold()
    collect_rarely()
    try:
        collect_rarely()
        raised = gc.get_threshold()
        with raised_gc_thresholds():
            pass
        assert gc.get_threshold() == raised
    finally:
        collect_as_usual()
        frozen = gc.get_freeze_count()
        gc.unfreeze()

    assert raised[0] > before[0]
    assert gc.get_threshold() == before
    assert frozen > 0


def test_a_process_that_never_collected_rarely_is_left_as_it_is() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()

    collect_as_usual()

    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, frozen)

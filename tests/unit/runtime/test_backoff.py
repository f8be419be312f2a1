"""Delays are arithmetic: tables of what client-go does."""

import pytest

from pinnace.runtime.backoff import FailureBackoff, RetryDelay, TokenBucket


def test_delays_of_a_key_double_up_to_the_cap() -> None:
    backoff: FailureBackoff[str] = FailureBackoff()
    delays = [backoff.next_delay("a") for _ in range(20)]
    assert delays[:4] == [0.005, 0.010, 0.020, 0.040]
    assert delays[17:] == [655.36, 1000.0, 1000.0]


def test_keys_do_not_share_failures_and_forgetting_starts_again() -> None:
    backoff: FailureBackoff[str] = FailureBackoff()
    backoff.next_delay("a")
    assert backoff.next_delay("b") == 0.005
    backoff.forget("a")
    assert backoff.next_delay("a") == 0.005
    backoff.forget("never seen")


def test_a_key_that_fails_for_ever_stays_at_the_cap() -> None:
    backoff: FailureBackoff[str] = FailureBackoff()
    delay = 0.0
    for _ in range(3000):
        delay = backoff.next_delay("a")
    assert delay == 1000.0


def test_bucket_gives_its_burst_at_once_then_ten_a_second() -> None:
    bucket = TokenBucket()
    assert [bucket.reserve(50.0) for _ in range(100)] == [0.0] * 100
    assert [bucket.reserve(50.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert bucket.reserve(50.3) == pytest.approx(0.1)
    assert bucket.reserve(1000.0) == 0.0
    assert [bucket.reserve(1000.0) for _ in range(99)] == [0.0] * 99
    assert bucket.reserve(1000.0) == pytest.approx(0.1)


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 1.0), (0.5, 1.5)], ids=["none", "half"])
def test_retry_delay_grows_to_its_cap_and_resets(jitter: float, factor: float) -> None:
    delay = RetryDelay(jitter=lambda: jitter)
    delays = [delay.next_delay() for _ in range(8)]
    assert delays == pytest.approx([factor * seconds for seconds in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30)])
    delay.reset()
    assert delay.next_delay() == pytest.approx(0.8 * factor)

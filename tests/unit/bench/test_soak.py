"""The arithmetic of the soak scenario."""

import pytest

from bench.figures import MEBIBYTE
from bench.scenarios.soak import Sample, Soak, slope


def test_the_slope_is_that_of_a_line_through_noise() -> None:
    points = [(float(x), 3.0 + 0.5 * x + (0.1 if x % 2 else -0.1)) for x in range(100)]

    assert slope(points) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 3.0)]])
def test_too_few_points_have_no_slope(points: list[tuple[float, float]]) -> None:
    assert slope(points) == 0.0


def test_growth_is_that_of_ten_minutes_and_descriptors_are_compared_at_their_least() -> None:
    samples = [Sample(each * 5.0, 100 * MEBIBYTE + each * 1024, 20 + each % 7) for each in range(120)]
    soak = Soak(samples=samples, backups=1)

    assert soak.slope_mib == pytest.approx(120 * 1024 / MEBIBYTE, rel=0.01)
    assert soak.more_descriptors == 0

"""Wilson intervals against known values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from birdrl.evaluation.intervals import Z_95, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.277533), (10, 10, 0.722467, 1.0), (5, 10, 0.236593, 0.763407)],
)
def test_known_values(successes: int, trials: int, low: float, high: float):
    assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-5)


@pytest.mark.parametrize(("share", "trials", "points"), [(0.64, 1534, 2.4), (0.44, 500, 4.4)])
def test_how_sure_a_benchmark_is(share: float, trials: int, points: float):
    """BIRD's development set and BIRD-CRITIC, at published accuracies; the points are the normal approximation's."""
    low, high = wilson(round(share * trials), trials)
    assert 100 * (high - low) / 2 == pytest.approx(points, abs=0.07)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_it_holds_the_share_and_stays_in_range(counts: tuple[int, int]):
    low, high = wilson(*counts)
    assert 0 <= low <= counts[0] / counts[1] + 1e-12
    assert counts[0] / counts[1] - 1e-12 <= high <= 1


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_ends_lie_z_standard_errors_from_the_share(counts: tuple[int, int]):
    # The interval's defining equation, (share - p)^2 = z^2 p (1 - p) / n, at either end.
    share, n = counts[0] / counts[1], counts[1]
    for end in wilson(*counts):
        assert (share - end) ** 2 == pytest.approx(Z_95**2 * end * (1 - end) / n, abs=1e-9)


def test_nothing_known_and_nonsense():
    assert wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson(3, 2)

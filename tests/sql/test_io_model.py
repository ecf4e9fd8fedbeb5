"""The I/O model against the paper's own figures and by hand."""

from __future__ import annotations

import pytest

from birdrl.errors import InputError
from birdrl.sql.io_model import IO_STRATEGIES, lifecycle_io, reset_factor

GIB = 2.0**30
PAPER = {"n": 5000, "r": 16, "b": 16}
SHARE = 0.0925  # of rollouts that reset (section 5)
SIZE = 2.94 * 1024 * GIB / (5000 * 16)  # the mean size that makes the baseline 2.94 TiB


def test_the_papers_table_3() -> None:
    k = reset_factor(fresh_copy=2.94 * 1024 * GIB, fixed_pool=236 * GIB, reset_share=SHARE)
    assert k == pytest.approx(1.18, abs=0.01)
    fresh = lifecycle_io("fresh_copy", **PAPER, q=SHARE * 5000, size=SIZE)
    pool = lifecycle_io("fixed_pool", **PAPER, q=SHARE * 5000, size=SIZE, k=k)
    assert fresh.online / GIB == pytest.approx(2.94 * 1024)
    assert pool.online / GIB == pytest.approx(236)
    assert fresh.online / pool.online == pytest.approx(12.8, abs=0.05)
    assert (fresh.offline, pool.offline) == (0, 128 * SIZE)


@pytest.mark.parametrize(
    ("strategy", "online", "offline"),
    [
        ("fresh_copy", 10 * 4 * 100, 0),
        ("always_reset", 10 * 4 * 100 / 2, 3 * (2 * 4 / 2) * 100),
        ("dynamic_pool", (2 + 5 / 2) * 4 * 100, 0),
        ("fixed_pool", 5 * 4 * 100 / 2, 3 * (2 * 4 / 2) * 100),
        ("overlay", 0, 0),
    ],
)
def test_by_hand(strategy: str, online: float, offline: float) -> None:
    got = lifecycle_io(strategy, n=10, r=4, b=2, q=5, k=2, size=100, databases=3)  # type: ignore[arg-type]
    assert (got.online, got.offline) == (online, offline)


def test_the_order_of_the_strategies() -> None:
    values = {"n": 1000, "r": 16, "b": 16, "q": 92.5, "size": 1e6}
    online = {strategy: lifecycle_io(strategy, **values).online for strategy in IO_STRATEGIES}
    assert online["overlay"] < online["fixed_pool"] < online["dynamic_pool"] < online["always_reset"]
    assert online["always_reset"] == online["fresh_copy"], "with k = 1 restoring always saves nothing"


def test_the_number_of_replicas_can_be_given() -> None:
    assert lifecycle_io("fixed_pool", n=1, r=1, b=1, q=0, size=10, replicas=64).offline == 640


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0.5}, "k=0.5 is below 1"),
        ({"q": 11}, "q=11 exceeds n=10"),
        ({"size": -1}, "size=-1"),
        ({"size": float("nan")}, "size=nan"),
        ({"strategy": "container"}, "known are fresh_copy"),
    ],
)
def test_values_without_a_meaning(change: dict[str, object], message: str) -> None:
    values: dict[str, object] = {"strategy": "overlay", "n": 10, "r": 4, "b": 2, "q": 5, "size": 100}
    with pytest.raises(InputError, match=message):
        lifecycle_io(**(values | change))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no reset factor"):
        reset_factor(fresh_copy=1, fixed_pool=0, reset_share=0.1)

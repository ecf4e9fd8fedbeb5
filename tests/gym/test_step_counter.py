"""What a query costs: counted in steps, and never more than reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from rewind_store import make_store

from birdrl.gym.rewind.cost import StepCounter


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("store"), ("shop",)).path("shop")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"


@pytest.mark.parametrize(
    ("sql", "costly"),
    [
        ("SELECT COUNT(*) FROM product", False),
        (ENDLESS, True),
        ("SELECT", False),
        ("SELECT nothing FROM product", False),
    ],
)
def test_steps_are_limited(template: Path, sql: str, costly: bool) -> None:
    counter = StepCounter(max_steps=200_000)
    assert counter.too_costly(template, [sql]) is costly
    assert counter.too_costly(template, ["SELECT 1", sql]) is costly
    counter.close()


def test_sql_that_does_more_than_read_does_nothing(template: Path, tmp_path: Path) -> None:
    counter, other = StepCounter(), tmp_path / "other.sqlite"
    assert not counter.too_costly(template, [f"ATTACH DATABASE '{other}' AS other", f"VACUUM INTO '{other}'"])
    assert not other.exists()
    counter.close()

from __future__ import annotations

from pathlib import Path

import pytest

from birdrl.errors import InputError
from birdrl.report.curves import KL, LOSS, REWARD, curve, failures, read_metrics, total_failures
from birdrl.report.labels import number


def test_nested_and_flat_rows_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        '{"step": 4, "train/loss": 1.5, "note": "x"}\n{"step": 5, "data": {"train/loss": 1.25, "ok": true}}\n'
    )
    rows = read_metrics(path)
    assert rows == [{"step": 4.0, "train/loss": 1.5}, {"step": 5.0, "train/loss": 1.25}]
    assert curve(rows, LOSS).values == (1.5, 1.25)


def test_the_first_known_name_wins_and_nothing_is_made_up() -> None:
    rows = [{"step": 1.0, "critic/score/mean": 0.5, "critic/rewards/mean": 0.25}]
    assert curve(rows, REWARD).name == "critic/rewards/mean"
    assert curve(rows, KL) == curve([], KL)
    assert curve(rows, KL).values == ()


def test_values_that_are_not_finite_are_left_out() -> None:
    rows = [{"step": 1.0, "loss": float("nan")}, {"step": 2.0, "loss": 2.0}, {"step": 3.0, "loss": float("inf")}]
    assert curve(rows, LOSS).steps == (2.0,)


def test_no_file_is_no_rows_but_a_broken_one_is_named(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == []
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": \n')
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
        read_metrics(tmp_path / "metrics.jsonl")


def test_failures_are_found_under_both_names_and_add_up_over_steps() -> None:
    rows = [{"rollout/failures/infra": 1.0, "gold_share": 0.5}, {"rollout/failures/infra": 2.0, "goldfish": 4.0}]
    assert total_failures(rows) == {"infra": 3.0}
    assert failures({"failures_infra": 0, "failures_gold": 2, "steps": 9}) == {"gold": 2.0, "infra": 0.0}
    assert total_failures([{"step": 1.0}]) == {}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "not recorded"),
        (1234567, "1,234,567"),
        (0.5, "0.50"),
        (0.00042, "4.20e-04"),
        (0.0, "0.00"),
        (True, "yes"),
    ],
)
def test_numbers_read_well(value: object, shown: str) -> None:
    assert number(value) == shown

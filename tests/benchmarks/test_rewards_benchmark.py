"""The benchmark of judging runs, compares like with like, and leaves its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import rewards
from birdrl.compare import MODES
from birdrl.files import read_json


def test_every_mode_is_measured_against_the_named_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards.main(["--quick", "--no-plot", "--out", str(tmp_path)]) == 0
    result = read_json(tmp_path / "rewards.json")
    assert set(MODES) < set(result["comparing_us"])
    assert all(set(of) == {"10", "100", "1000"} for of in result["comparing_us"].values())
    assert {"CSMR, right", "CSMR, one column wrong"} < set(result["comparing_us"])
    measured = [result[name] for name in ("comparing_us", "test_cases_per_second", "batch_seconds")]
    assert all(baseline in group for baseline, group in zip(result["baselines"], measured, strict=True))
    shown = capsys.readouterr().out
    assert "A GRPO batch of 16 x 16 answers" in shown
    assert shown.count("(baseline)") >= 3

"""The audit's benchmark runs, and what it compares is right; nothing here looks at a clock."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import audit


def test_the_quick_benchmark_finds_the_same_pairs_in_both_modes(tmp_path: Path) -> None:
    assert audit.main(["--quick", "--no-plot", "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "audit.json").read_text())
    assert [(run["train"], run["mode"]) for run in result["runs"]] == [
        (1_000, "exhaustive"), (1_000, "streaming"), (4_000, "exhaustive"), (4_000, "streaming"),
    ]  # fmt: skip
    for run in result["runs"]:
        assert run["pairs"] == run["train"] * 60
        assert run["flagged"] > 0
        if run["mode"] == "streaming":
            assert run["flagged_recall"] == run["flagged_precision"] == run["closest_recall"] == 1.0
    assert "| 60 x 1,000 | exhaustive |" in (tmp_path / "audit.md").read_text()

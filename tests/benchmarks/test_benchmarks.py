"""The benchmarks run, and what they count is right; nothing here looks at a clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import executor, pool
from benchmarks._databases import MUTATIONS, make_database, require_space, selects
from benchmarks._harness import Timings, machine, markdown, shown_bytes, shown_ratio
from birdrl.errors import InputError
from birdrl.files import read_json


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("pool")
    assert pool.main(["--quick", "--sizes", "2", "--sessions", "2", "--out", str(out), "--work", str(out)]) == 0
    return out, read_json(out / "pool.json")


def rows(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    [size] = result["sizes"]
    return {row["strategy"]: row for row in [*size["in_process"], *size["pool"]]}


def test_bytes_written_are_what_the_model_predicts(measured: tuple[Path, dict[str, Any]]) -> None:
    _, result = measured
    for name, row in rows(result).items():
        predicted, written = row["predicted_bytes_per_trajectory"], row["written_bytes_per_trajectory"]
        if "overlay" in name:
            assert (predicted, written, row["disk_bytes_per_replica"]) == (0, 0, 0)
        else:
            # What the model leaves out is the changed pages themselves.
            assert predicted <= written <= predicted + 0.02 * result["sizes"][0]["bytes"], name
        assert row["written_beforehand"] == row["predicted_beforehand"], name


def test_a_reset_writes_what_a_copy_writes(measured: tuple[Path, dict[str, Any]]) -> None:
    assert measured[1]["sizes"][0]["k"]["bytes"] == pytest.approx(1.0, abs=0.15)


def test_every_strategy_ran_the_same_trajectories(measured: tuple[Path, dict[str, Any]]) -> None:
    _, result = measured
    assert {(row["trajectories"], row["changes"]) for row in rows(result).values()} == {(24, 2)}
    assert result["sizes"][0]["pool"][0]["ratio"] == 1.0
    assert result["idle_sessions"]["sessions"] == 2
    assert result["idle_sessions"]["worker_private"] > 1e6


def test_only_lazy_resets_are_counted(measured: tuple[Path, dict[str, Any]]) -> None:
    found = rows(measured[1])
    assert found["overlay"]["resets"] == found["copy, reset when dirty"]["resets"] == 2
    assert 0 < found["pool: overlay"]["resets"] <= 2, "a pool prefers its clean replica"
    overlay = found["pool: overlay"]
    assert overlay["first_answer"]["n"] + overlay["first_answer_after_reset"]["n"] == overlay["trajectories"]
    assert overlay["first_answer"]["p50_us"] > overlay["lease"]["p50_us"], "it includes the lease"


def test_the_results_lie_where_people_look(measured: tuple[Path, dict[str, Any]]) -> None:
    out, _ = measured
    text = (out / "pool.md").read_text()
    assert "| pool: overlay |" in text
    assert "predicted" in text
    assert (out / "pool.png").stat().st_size > 1000
    assert not list(out.glob("birdrl-bench-*")), "databases and copies are removed"


def test_a_strategy_that_leaks_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from birdrl.sql.session import Session

    monkeypatch.setattr(Session, "renew", lambda self, reset=False: False)
    assert pool.main(["--quick", "--sizes", "1", "--out", str(tmp_path), "--no-plot"]) == 1


@pytest.mark.parametrize("arguments", [["--sizes", "small"], ["--work", "/nowhere"]])
def test_wrong_input(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pool.main(["--quick", "--out", str(tmp_path), *arguments]) == 2
    assert "error:" in capsys.readouterr().err


def test_executions_kills_and_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert executor.main(["--quick", "--out", str(tmp_path), "--no-plot"]) == 0
    result = read_json(tmp_path / "executor.json")
    assert set(result["concurrent_per_second"]) == {"1", "16"}
    assert result["one_by_one"]["a session in its worker"]["n"] == 200
    assert result["kill_delay"]["n"] == 2
    assert result["kill_delay"]["p50_us"] >= 250_000, "the progress handler gets its grace before the kill"
    assert "target 4,000" in capsys.readouterr().out


@pytest.mark.parametrize("program", [pool, executor])
def test_help_has_examples(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        program.main(["--help"])
    assert end.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_databases_have_their_size_and_are_the_same_every_time(tmp_path: Path) -> None:
    import apsw

    first, second = (make_database(tmp_path / f"{name}.sqlite", 3) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size == pytest.approx(3e6, rel=0.05)
    connection = apsw.Connection(str(first))
    assert all(connection.execute(sql).fetchall() for sql in selects(7))
    for sql in MUTATIONS:
        connection.execute(sql)


def test_room_is_checked_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give another --work"):
        require_space(tmp_path, 1e18)


def test_harness() -> None:
    timings = Timings([0.001 * n for n in range(1, 101)])
    assert [timings.median, timings.percentile(99), timings.percentile(50)] == pytest.approx([0.0505, 0.1, 0.051])
    assert timings.summary() == {"n": 100, "p50_us": 50500.0, "p99_us": 100000.0}
    assert [shown_bytes(n) for n in (12, 1200, 1.2e6, 3.4e9)] == ["12 B", "1.2 kB", "1.2 MB", "3.4 GB"]
    assert [shown_ratio(r) for r in (0.02, 1, 5.55, 1234.5)] == ["0.02x", "1x", "5.5x", "1,234x"]
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
    assert machine(Path("/tmp"))["cpus"] >= 1

"""`birdrl diagnose` on transcripts about a real small database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, build_store

from birdrl.agent.tools import EXECUTE, SUBMIT, format_tool_call
from birdrl.cli import main
from birdrl.files import read_json, write_jsonl

HALF = "SELECT id, price FROM orders WHERE price >= 20"  # M = 1 of N_G = 1, N_P = 2: 0.4
RIGHT = "SELECT id FROM orders WHERE price >= 20"


def transcript(instance_id: str, *turns: tuple[str, str]) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Repair it."}]
    for tool, sql in turns:
        messages += [{"role": "assistant", "content": format_tool_call(tool, sql)}, {"role": "tool", "content": "x"}]
    return {"instance_id": instance_id, "messages": messages[:-1]}


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "templates").mkdir()
    build_store(tmp_path / "templates")
    write_jsonl(tmp_path / "instances.jsonl", [BOUNDARY.row(), BAD_GOLD.row()])
    return ["--instances", str(tmp_path / "instances.jsonl"), "--templates", str(tmp_path / "templates")]


def test_energy_and_distribution_of_transcripts(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "transcripts.jsonl"
    rows = [
        transcript("boundary", (EXECUTE, HALF), (SUBMIT, RIGHT)),
        transcript("boundary", (EXECUTE, RIGHT), (EXECUTE, "SELECT 0"), (SUBMIT, HALF)),
        transcript("boundary", (SUBMIT, "SELECT 0")),
        transcript("bad_gold", (SUBMIT, "SELECT 0")),
        {"instance_id": "boundary", "excluded": "prompt_too_long", "messages": []},
    ]
    write_jsonl(file, rows)
    assert main(["diagnose", str(file), *arguments, "--out", str(tmp_path / "report.json")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == read_json(tmp_path / "report.json")
    assert (report["transcripts"], report["gold"]) == (4, 1)
    assert report["outcomes"] == {"solved": 1, "wrong": 2}
    distribution = report["reward_distribution"]
    assert (distribution["right"], distribution["partial"], distribution["answers"]) == pytest.approx((1 / 3, 1 / 3, 3))
    energy = report["energy"]
    assert (energy["steps"], energy["trajectories_with_cycles"]) == (6, 1)
    assert energy["dissipating_share"] == pytest.approx(4 / 6)
    assert energy["mean_energy_by_turn"][0] == 1.0


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"instance_id": "unknown", "messages": []}, "row 1: no instance 'unknown'"),
        ({"instance_id": "boundary"}, "row 1: needs 'instance_id' and 'messages'"),
        ({"instance_id": "boundary", "messages": ["SELECT 1"]}, "row 1, message 1: needs 'role' and 'content'"),
        (
            {
                "instance_id": "boundary",
                "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": None}],
            },
            "row 1, message 2: needs 'role' and 'content'",
        ),
        ({"instance_id": ["boundary"], "messages": []}, "row 1: no instance ['boundary']"),
        (None, "no transcripts"),
    ],
)
def test_wrong_input_is_named(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], row: Any, named: str
) -> None:
    file = tmp_path / "transcripts.jsonl"
    write_jsonl(file, [] if row is None else [row])
    assert main(["diagnose", str(file), *arguments]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--tau", "nan", "--tau nan"),
        ("--tau", "-1", "--tau -1.0"),
        ("--timeout", "0", "--timeout"),
        ("--workers", "0", "--workers"),
    ],
)
def test_numbers_outside_their_range_are_wrong_input(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], option: str, value: str, named: str
) -> None:
    assert main(["diagnose", str(tmp_path / "transcripts.jsonl"), *arguments, option, value]) == 2
    assert named in capsys.readouterr().err


def test_a_cap_outside_its_range_is_wrong_input(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "transcripts.jsonl"
    write_jsonl(file, [transcript("boundary", (SUBMIT, RIGHT))])
    assert main(["diagnose", str(file), *arguments, "--alpha", "1.5"]) == 2
    assert "between 0 and 1" in capsys.readouterr().err


def test_only_broken_references_is_a_failure(tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "transcripts.jsonl"
    write_jsonl(file, [transcript("bad_gold", (SUBMIT, RIGHT))])
    assert main(["diagnose", str(file), *arguments]) == 1

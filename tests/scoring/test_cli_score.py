"""`birdrl score` and `birdrl gym check` from the outside: output, summary, exit status, what is named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from birdrl.cli import main
from birdrl.files import read_jsonl, write_jsonl

QUESTIONS = [
    {"instance_id": name, "db_id": "shop", "sol_sql": [sql], "category": category}
    for name, sql, category in (
        ("count", "SELECT count(*) FROM item", "Query"),
        ("names", "SELECT name FROM item ORDER BY id", "Query"),
        ("update", "UPDATE item SET stock = 1 WHERE id = 2", "Management"),
    )
]
ANSWERS = [
    {"instance_id": "count", "pred_sqls": ["SELECT count(id) FROM item"]},
    {"instance_id": "names", "pred_sqls": ["SELECT name FROM item ORDER BY id DESC"]},
    {"instance_id": "update", "pred_sqls": ["UPDATE item SET stock = 1 WHERE name = 'nut'"]},
]


class Files:
    def __init__(self, folder: Path, databases: Path) -> None:
        self.folder, self.databases = folder, databases
        self.out = folder / "verdicts.jsonl"

    def score(self, *more: str, instances: Any = QUESTIONS, answers: Any = ANSWERS, mode: str = "multiset") -> int:
        write_jsonl(self.folder / "instances.jsonl", instances)
        write_jsonl(self.folder / "predictions.jsonl", answers)
        return main(
            [
                "score", "--instances", str(self.folder / "instances.jsonl"),
                "--predictions", str(self.folder / "predictions.jsonl"), "--databases", str(self.databases),
                "--mode", mode, "--out", str(self.out), "--workers", "1", *more,
            ]
        )  # fmt: skip

    def check(self, *more: str, instances: Any) -> int:
        write_jsonl(self.folder / "instances.jsonl", instances)
        path = str(self.folder / "instances.jsonl")
        return main(["gym", "check", "--instances", path, "--databases", str(self.databases), "--workers", "1", *more])

    def verdicts(self) -> dict[str, int | None]:
        return {row["id"]: row["verdict"] for row in read_jsonl(self.out)}


@pytest.fixture
def files(tmp_path: Path, folder: Path) -> Files:
    return Files(tmp_path, folder)


def test_one_object_a_line_and_a_summary(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.score() == 0
    rows = list(read_jsonl(files.out))
    assert [(row["id"], row["verdict"]) for row in rows] == [("count", 1), ("names", 1), ("update", 1)]
    assert all(row["seconds"] >= 0 and row["gold_seconds"] >= 0 and row["reason"] == "" for row in rows)
    shown = capsys.readouterr().out
    assert "3 of 3 right, 100.00 %" in shown
    assert "management: 1 of 1" in shown
    assert files.score(mode="ordered") == 0
    assert files.verdicts() == {"count": 1, "names": 0, "update": 1}
    assert next(row["reason"] for row in read_jsonl(files.out) if row["id"] == "names") == "another order of rows"


def test_json_summary_with_metrics(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = [argument for name in ("soft_f1", "r_ves", "suite") for argument in ("--metric", name)]
    assert files.score("--json", "--repeats", "2", "--copies", "3", *metrics, mode="ordered") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["right"], summary["n"], summary["accuracy"]) == (2, 3, 0.666667)
    low, high = summary["interval"]
    assert 0.2 < low < summary["accuracy"] < high < 1
    assert summary["soft_f1"]["mean"] == pytest.approx((1 + 0.2) / 2)  # of the two with tables; one row of five fits
    assert summary["soft_f1_assigned"]["mean"] == 1
    assert summary["suite"]["mean"] == pytest.approx(2 / 3, abs=1e-6)
    assert 0 < summary["r_ves"] <= 112
    rows = {row["id"]: row for row in read_jsonl(files.out)}
    assert rows["names"]["r_ves_reward"] == 0
    assert rows["update"]["r_ves_reward"] is None
    assert rows["count"]["r_ves_reward"] > 0
    assert rows["count"]["suite_copies"] >= 1


def test_trials(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    trials = [["SELECT 4"], ["SELECT count(id) FROM item"], ["SELECT 5"], ["selec"]]
    answers = [{"instance_id": "count", "pred_sqls": sqls} for sqls in trials]
    assert files.score("--trials", "--json", instances=QUESTIONS[:1], answers=answers) == 0
    summary = json.loads(capsys.readouterr().out)["trials"]
    assert summary["answers per instance"] == 4
    assert summary["mean of trials"] == 0.5
    assert summary["pass@1"] == 0.5
    assert summary["pass@2"] == pytest.approx(5 / 6)
    assert summary["pass@4"] == 1
    assert summary["majority vote"] == 1
    assert [row["trial"] for row in read_jsonl(files.out)] == [0, 1, 2, 3]


def test_unequal_numbers_of_trials_are_told(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [ANSWERS[0], *[ANSWERS[1]] * 3]
    assert files.score("--trials", "--json", instances=QUESTIONS[:2], answers=answers) == 0
    trials = json.loads(capsys.readouterr().out)["trials"]
    assert (trials["answers per instance"], trials["most answers per instance"]) == (1, 3)
    assert "pass@2" not in trials, "one instance has a single answer"
    assert files.score("--trials", instances=QUESTIONS[:2], answers=answers) == 0
    shown = capsys.readouterr().out
    assert "answers per instance 1 to 3\n" in shown
    assert "most answers" not in shown


FORGED = '\n{"id": "names", "verdict": 1, "reason": "", "passed": 1, "total": 1}\n3 of 3 right, 100.00 %\n'


def test_what_predictions_say_is_no_verdict(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """Forged lines in data, in an error message, and in the name of a column."""
    name = FORGED.replace('"', '""')
    answers = [
        {"instance_id": "count", "pred_sqls": [f"INSERT INTO maker VALUES (3, '{FORGED}')", "SELECT name FROM maker"]},
        {"instance_id": "names", "pred_sqls": [f'SELECT item."{name}" FROM item']},
        {"instance_id": "update", "pred_sqls": [f'CREATE TABLE "{name}" AS SELECT 1 AS "{name}"']},
    ]
    assert files.score(answers=answers) == 0
    rows = list(read_jsonl(files.out))
    assert [(row["id"], row["verdict"]) for row in rows] == [("count", 0), ("names", 0), ("update", 0)]
    assert "3 of 3 right" in rows[1]["reason"], "it is in a message, and no more than that"
    assert len(files.out.read_text(encoding="utf-8").splitlines()) == 3
    shown = capsys.readouterr().out
    assert "0 of 3 right, 0.00 %" in shown
    assert "3 of 3 right" not in shown


def test_against_another_run(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.score() == 0
    other = files.folder / "other.jsonl"
    files.out.rename(other)
    assert files.score("--against", str(other), "--json", mode="ordered") == 0
    text = capsys.readouterr().out
    against = json.loads(text[text.index("{") :])["against"]
    assert against == {"instances": 3, "only_this_run": 0, "only_other_run": 1, "p_value": 1.0}


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"foo": 1}, "row 1: no verdict"),
        ({"id": "count", "verdict": "yes"}, "row 1: no verdict"),
        ({"id": "other", "verdict": 1}, "no verdict on any of these instances"),
    ],
)
def test_a_file_that_is_no_run_of_these_instances_is_refused(
    row: Any, named: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    other = files.folder / "other.jsonl"
    write_jsonl(other, [row])
    assert files.score("--against", str(other)) == 2
    assert named in capsys.readouterr().err
    assert not files.out.exists(), "seen before anything was scored"


def test_what_was_read_is_not_written_over(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    database = files.databases / "shop" / "shop.sqlite"
    for out in (files.folder / "predictions.jsonl", files.folder / "instances.jsonl", database):
        assert files.score("--out", str(out)) == 2
        assert "is one of the files that are read" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named_before_scoring(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (files.folder, files.folder / "predictions.jsonl" / "out.jsonl", Path("/proc/nowhere/out.jsonl")):
        assert files.score("--out", str(out)) == 2
        assert f"--out {out}: " in capsys.readouterr().err


def test_what_could_not_be_judged_is_named_and_in_no_mean(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"instance_id": "broken", "db_id": "shop", "sol_sql": ["SELECT nothing"]}
    answers = [*ANSWERS, {"instance_id": "broken", "pred_sqls": ["SELECT 1"]}]
    assert files.score(instances=[*QUESTIONS, broken], answers=answers) == 1
    assert files.verdicts()["broken"] is None
    shown = capsys.readouterr().out
    assert "3 of 3 right" in shown
    assert "not judged (gold): broken: broken: sol_sql fails" in shown


@pytest.mark.parametrize(
    ("instances", "answers", "named"),
    [
        (QUESTIONS, ANSWERS[:2], "no prediction for update"),
        (QUESTIONS, [*ANSWERS, ANSWERS[0]], "second prediction for instance 'count'"),
        (QUESTIONS, [*ANSWERS, {"instance_id": "x", "pred_sqls": []}], "no instance 'x'"),
        ([{**QUESTIONS[0], "db_id": "zoo"}], ANSWERS[:1], "no database 'zoo'"),
    ],
)
def test_wrong_input_is_named(
    instances: Any, answers: Any, named: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files.score(instances=instances, answers=answers) == 2
    assert named in capsys.readouterr().err
    assert not files.out.exists()


def test_wrong_use(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.score("--timeout", "0") == 2
    assert "--timeout must be a number above 0" in capsys.readouterr().err
    assert files.score("--gold-timeout", "nan") == 2
    with pytest.raises(SystemExit) as ended:
        files.score(mode="exact")
    assert ended.value.code == 2


def test_missing_predictions_score_zero_on_request(files: Files) -> None:
    assert files.score("--missing", "zero", answers=ANSWERS[:1]) == 0
    assert files.verdicts() == {"count": 1, "names": 0, "update": 0}


PYTHON = (
    "def test_case(pred_sqls, sol_sqls, db_path, conn):\n    assert ex_base(pred_sqls, sol_sqls, db_path, conn) == 1"
)
CRITIC = {
    "instance_id": "SQLite_0", "db_id": "shop", "query": "?", "category": "Query",
    "issue_sql": ["SELECT count(*) FROM maker"], "sol_sql": ["SELECT count(*) FROM item"],
    "preprocess_sql": [], "clean_up_sql": [], "test_cases": [PYTHON],
}  # fmt: skip


@pytest.mark.parametrize("mode", ["critic_strict", "critic_compat", "bird"])
def test_instances_with_test_cases(mode: str, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    hack = ["CREATE TEMP TABLE IF NOT EXISTS item(x)", "SELECT 0"]
    other = {**CRITIC, "instance_id": "SQLite_1"}
    answers = [
        {"instance_id": "SQLite_0", "pred_sqls": ["SELECT count(id) FROM item"]},
        {"instance_id": "SQLite_1", "pred_sqls": hack},
    ]
    assert files.score(instances=[CRITIC, other], answers=answers, mode=mode) == 0
    compat = mode == "critic_compat"
    assert files.verdicts() == {"SQLite_0": 1, "SQLite_1": int(compat)}
    assert ("the two disagree on 1 instances: SQLite_1" in capsys.readouterr().out) is compat


def test_a_pipe_is_no_place_for_verdicts(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdicts are renamed into place, which would replace a device by a file."""
    files.out = files.folder / "pipe"
    os.mkfifo(files.out)
    assert files.score() == 2
    assert "is a device or a pipe" in capsys.readouterr().err
    assert files.out.is_fifo()


def test_gate_zero(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {**CRITIC, "instance_id": "SQLite_9", "issue_sql": CRITIC["sol_sql"]}
    assert files.check(instances=[CRITIC]) == 0
    assert "1 of 1 instances pass gate zero" in capsys.readouterr().out
    assert files.check(instances=[CRITIC, bad]) == 1
    assert "SQLite_9: the issue passes every test" in capsys.readouterr().out
    assert files.check("--json", instances=[CRITIC, bad]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "instances": 2,
        "failed": [{"id": "SQLite_9", "reasons": ["the issue passes every test"]}],
    }
    managed = {"instance_id": "m", "db_id": "shop", "sol_sql": ["UPDATE item SET stock = 1"], "category": "management"}
    instance = {**managed, "query": "", "issue_sql": ["UPDATE item SET stock = 0"]}
    assert files.check(instances=[instance]) == 0  # as it is scored
    assert files.score(instances=[instance], answers=[{"instance_id": "m", "pred_sqls": managed["sol_sql"]}]) == 0
    assert files.verdicts() == {"m": 1}
    capsys.readouterr()
    assert files.check(instances=[{**CRITIC, "db_id": "zoo"}]) == 2
    assert "no database 'zoo'" in capsys.readouterr().err

"""Files of instances and predictions in the forms of the benchmarks; what is wrong with one is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from birdrl.errors import InputError
from birdrl.gym.instance import PythonTest, ResultTest
from birdrl.scoring.predictions import Prediction, read_predictions
from birdrl.scoring.tasks import Task, read_tasks

CRITIC = {
    "instance_id": "SQLite_7", "db_id": "shop", "query": "?", "issue_sql": ["SELECT 1"], "sol_sql": ["SELECT 2"],
    "preprocess_sql": ["CREATE TABLE t(a)"], "clean_up_sql": [], "category": "Query", "efficiency": False,
    "test_cases": ["def test_case(p, s, d, c): pass", {"kind": "result"}], "conditions": {"order": True},
}  # fmt: skip


def write(path: Path, value: Any) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in value))
    else:
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_instances_of_bird_critic(tmp_path: Path) -> None:
    [task] = read_tasks(write(tmp_path / "i.jsonl", [CRITIC]))
    assert (task.instance_id, task.db_id, task.sol_sql, task.issue_sql) == (
        "SQLite_7", "shop", ("SELECT 2",), ("SELECT 1",),
    )  # fmt: skip
    assert task.preprocess_sql == ("CREATE TABLE t(a)",)
    assert [type(test) for test in task.test_cases] == [PythonTest, ResultTest]
    assert (task.conditions, task.group) == ({"order": True}, "query")


@pytest.mark.parametrize(
    ("name", "value", "ids"),
    [
        ("i.json", [{"db_id": "shop", "query": "SELECT 1", "question": "?"}] * 2, ["0", "1"]),
        ("i.json", [{"question_id": 31, "db_id": "shop", "SQL": "SELECT 1", "difficulty": "simple"}], ["31"]),
        ("i.sql", "SELECT 1\tshop\nSELECT 'a\tb'\tshop\n", ["0", "1"]),
        ("i.jsonl", [{"instance_id": "a_1", "selected_database": "shop", "sol_sql": "SELECT 1"}], ["a_1"]),
        ("i.sql", "SELECT 'a\u2028b\x85'\tshop\r\nSELECT 2\tshop\r\n\r\n", ["0", "1"]),
    ],
)
def test_other_instances(tmp_path: Path, name: str, value: Any, ids: list[str]) -> None:
    tasks = read_tasks(write(tmp_path / name, value))
    assert [task.instance_id for task in tasks] == ids
    assert all(task.db_id == "shop" and task.sol_sql for task in tasks)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("i.jsonl", [CRITIC, CRITIC], "row 2: instance 'SQLite_7' is there twice"),
        ("i.jsonl", [{**CRITIC, "sol_sql": []}], r"row 1 \(SQLite_7\): holds no gold SQL"),
        ("i.jsonl", [{**CRITIC, "sol_sql": [1]}], "holds no gold SQL"),
        ("i.jsonl", [{"sol_sql": ["SELECT 1"]}], "row 1: names no database"),
        ("i.jsonl", [{**CRITIC, "test_cases": [{"kind": "guess"}]}], "test_cases.0"),
        ("i.jsonl", [{**CRITIC, "test_cases": [{"kind": "plan"}]}], "an index or a table"),
        ("i.jsonl", [{**CRITIC, "preprocess_sql": {"a": 1}}], "'preprocess_sql'"),
        ("i.jsonl", [{**CRITIC, "conditions": [1]}], "'conditions'"),
        ("i.json", {"a": 1}, "expected a JSON list"),
        ("i.json", [], "holds no instance"),
        ("i.json", "[", "not valid JSON"),
        ("i.sql", "SELECT 1\n", "line 1: expected SQL<TAB>db_id"),
        ("i.sql", "SELECT 1\tshop\n\nSELECT 1\tshop\n", "line 2: expected SQL<TAB>db_id"),
        ("i.jsonl", [{**CRITIC, "instance_id": None}], "row 1: field 'instance_id' is None"),
    ],
)
def test_broken_instances_are_named(tmp_path: Path, name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_tasks(write(tmp_path / name, value))
    assert name in str(caught.value)


TASKS = [Task("a", "shop", ("SELECT 1",)), Task("b", "shop", ("SELECT 2",)), Task("c", "zoo", ("SELECT 3",))]
CRITIC_FORM = [
    {"instance_id": "b", "pred_sqls": ["S2", "S3"]},
    {"instance_id": "a", "pred_sqls": "S1"},
    {"instance_id": "c", "pred_sqls": []},
]
BIRD_FORM = {str(i): f"S{i + 1}\t----- bird -----\t{db_id}" for i, db_id in enumerate(("shop", "shop", "zoo"))}
MINI_DEV = [Task(name, "shop", ("SELECT 1",)) for name in ("1471", "2", "90")]  # ids of the larger benchmark
SHUFFLED = [Task("1", "shop", ("SELECT 1",)), Task("0", "shop", ("SELECT 2",))]
NUMBERED = [Task("7", "shop", ("SELECT 1",)), Task("8", "zoo", ("SELECT 2",))]


@pytest.mark.parametrize(
    ("name", "value", "tasks", "expected"),
    [
        ("p.jsonl", CRITIC_FORM, TASKS, [("S1",), ("S2", "S3"), ()]),
        ("p.json", {"a": ["S1"], "b": "S2", "c": None}, TASKS, [("S1",), ("S2",), ()]),
        ("p.json", BIRD_FORM, TASKS, [("S1",), ("S2",), ("S3",)]),
        ("p.json", {"7": "S1\t----- bird -----\tshop", "8": "S2"}, NUMBERED, [("S1",), ("S2",)]),
        ("p.json", {"0": "S1\t----- bird -----\tshop", "1": "S2"}, NUMBERED, [("S1",), ("S2",)]),
        ("p.json", ["S1", "S2", "S3"], TASKS, [("S1",), ("S2",), ("S3",)]),
        ("p.sql", "S1\tshop\nS2\n\n", TASKS, [("S1",), ("S2",), ()]),
        ("p.sql", "S1\r\n\r\nS3\u2028\r\n\r\n \r\n", TASKS, [("S1",), (), ("S3\u2028",)]),
        ("p.sql", "S1\nS2\n", SHUFFLED, [("S1",), ("S2",)]),
        ("p.json", ["S1", "S2"], SHUFFLED, [("S1",), ("S2",)]),
        ("p.json", {"0": "S2", "1": "S1"}, SHUFFLED, [("S1",), ("S2",)]),
        ("p.json", {str(i): f"S{i}" for i in range(3)}, MINI_DEV, [("S0",), ("S1",), ("S2",)]),
        ("p.json", {"1471": "S1", "2": "S2", "90": "S3"}, MINI_DEV, [("S1",), ("S2",), ("S3",)]),
        ("p.jsonl", [{"instance_id": "a", "pred_sqls": "S1 [split] S2[split]"}, *CRITIC_FORM[::2]], TASKS,
         [("S1 ", " S2"), ("S2", "S3"), ()]),
        ("p.txt", "S1\nS2\nS3", TASKS, [("S1",), ("S2",), ("S3",)]),
        ("p.json", [{"idx": i, "pred": f"S{i + 1}"} for i in range(3)], TASKS, [("S1",), ("S2",), ("S3",)]),
        ("p.json", [{"question_id": 8, "SQL": "S2"}, {"question_id": 7, "SQL": "S1"}], NUMBERED, [("S1",), ("S2",)]),
    ],
)  # fmt: skip
def test_predictions(tmp_path: Path, name: str, value: Any, tasks: list[Task], expected: list[tuple[str, ...]]) -> None:
    answers = read_predictions(write(tmp_path / name, value), tasks)
    assert [answer.sqls for answer in answers] == expected
    assert [answer.instance_id for answer in answers] == [task.instance_id for task in tasks]


ALL = [{"instance_id": name, "pred_sqls": ["S"]} for name in "abc"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("p.jsonl", [*ALL, ALL[0]], "row 4: a second prediction for instance 'a'"),
        ("p.jsonl", ALL[:1], "no prediction for b, c"),
        ("p.jsonl", [*ALL, {"instance_id": "d", "pred_sqls": ["S"]}], "row 4: no instance 'd'"),
        ("p.jsonl", [{"instance_id": "a"}], r"row 1 \(a\): holds no SQL"),
        ("p.jsonl", [{"instance_id": "a", "pred_sqls": [1]}], "neither a text nor a list of texts"),
        ("p.json", {"a": "S\t----- bird -----\tzoo"}, "key 'a': predicts on database 'zoo'"),
        ("p.json", {"a": 3}, "key 'a': expected a text"),
        ("p.json", 3, "expected a JSON object or list"),
        ("p.json", {"a": "S", "1": "S"}, "key '1': no instance '1'"),
        ("p.json", [3], "row 1: expected an object or a text"),
        ("p.sql", "S\tzoo\nS\nS", "line 1: predicts on database 'zoo'"),
        ("p.txt", "S\nS\nS\nS", "line 4: no instance '3'"),
        ("p.json", '{"a": "S", "b": "S", "a": "S"}', "holds the key 'a' twice"),
        ("p.json", [{"instance_id": None, "pred_sqls": ["S"]}], "row 1: field 'instance_id' is None"),
        ("p.json", [{"idx": True, "pred": "S"}], "row 1: field 'idx' is True"),
    ],
)
def test_broken_predictions_are_named(tmp_path: Path, name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_predictions(write(tmp_path / name, value), TASKS)
    assert name in str(caught.value)


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"instance_id": "a", "pred_sqls": ["S"]}\n{"instance_id": \n')
    with pytest.raises(InputError, match="line 2: not valid JSON"):
        read_predictions(path, TASKS)


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.txt"])
def test_files_with_a_byte_order_mark_are_read_and_other_encodings_named(name: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / name, ALL if name == "p.jsonl" else "S\nS\nS" if name == "p.txt" else dict.fromkeys("abc", "S")
    )
    text = path.read_text()
    path.write_text(text, encoding="utf-8-sig")
    assert [answer.sqls for answer in read_predictions(path, TASKS)] == [("S",)] * 3
    path.write_bytes(text.replace("S", "\xe9").encode("latin-1"))
    with pytest.raises(InputError, match=f"{name}.*not UTF-8"):
        read_predictions(path, TASKS)


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.txt"])
def test_what_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{name}: no such file"):
        read_predictions(tmp_path / name, TASKS)
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=f"{name}: cannot be read"):
        read_predictions(tmp_path / name, TASKS)


@pytest.mark.parametrize("name", ["p.jsonl", "p.json"])
def test_nesting_without_end_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        read_predictions(tmp_path / name, TASKS)


def test_missing_predictions_on_request(tmp_path: Path) -> None:
    answers = read_predictions(write(tmp_path / "p.jsonl", ALL[1:2]), TASKS, missing=True)
    assert [answer.sqls for answer in answers] == [(), ("S",), ()]


def test_trials(tmp_path: Path) -> None:
    rows = [{"instance_id": name, "pred_sqls": [f"{name}{i}"]} for i in range(2) for name in "abc"]
    answers = read_predictions(write(tmp_path / "p.jsonl", rows), TASKS, trials=True)
    assert [(answer.instance_id, answer.trial, answer.sqls) for answer in answers][:2] == [
        ("a", 0, ("a0",)),
        ("a", 1, ("a1",)),
    ]
    assert len(answers) == 6
    assert isinstance(answers[0], Prediction)

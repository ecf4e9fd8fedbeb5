"""Public formats: what is read, that nothing is lost on the way back, and that broken rows are set aside by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from birdrl.errors import InputError
from birdrl.formats import FORMATS, detect, export_row, import_file
from birdrl.formats.files import read_rows, write_rows
from birdrl.formats.specs import named
from birdrl.gym.generation import GenerationTask
from birdrl.gym.instance import Instance

SHARED = Path(os.environ.get("BIRDRL_SHARED_DATA", "../shared/data"))

SIX_GYM = {
    "instance_id": "TRAIN_0", "db_id": "books", "db_name": "books_template", "query": "Find publishers.",
    "issue_sql": ["SELECT pub_id FROM titles"], "sol_sql": ["SELECT DISTINCT pub_id FROM titles"], "test_cases": [],
    "preprocess_schema": "", "preprocess_sql": [], "clean_up_sql": [], "category": "Query", "dialect": "SQLite",
    "version": "3.45",
}  # fmt: skip
CRITIC = {
    "dialect": "PostgreSQL", "version": "14.12", "instance_id": "PostgreSQL_7", "db_id": "financial",
    "query": "It is slow.", "issue_sql": ["SELECT 1;"], "preprocess_sql": ["CREATE TABLE x (a INT)"],
    "clean_up_sql": ["DROP TABLE x"], "category": "Efficiency", "efficiency": True,
}  # fmt: skip
PREVIEW = {
    "instance_id": "270_1", "selected_database": "financial", "query": "Accounts?", "error_sql": "SELECT 1",
    "preprocess_sql": "", "clean_up_sql": [], "external_data": {"file": "a.csv"},
}  # fmt: skip
LIVE = {
    "instance_id": "alien_1", "selected_database": "alien", "query": "Rank the signals.", "preprocess_sql": [],
    "clean_up_sqls": [], "category": "Query", "high_level": False, "conditions": {"decimal": 2, "order": True},
    "difficulty_tier": "Challenging", "sol_sql": ["SELECT 1"], "external_knowledge": [3, 5], "test_cases": [],
}  # fmt: skip
BIRD = {
    "question_id": 3, "db_id": "schools", "question": "Which?", "evidence": "E", "SQL": "SELECT a FROM t",
    "difficulty": "simple",
}  # fmt: skip
BIRD_TRAIN = {"db_id": "movies", "question": "Name them.", "evidence": "", "SQL": "SELECT b FROM t"}
SPIDER = {
    "db_id": "concert", "query": "SELECT count(*) FROM singer", "query_toks": ["SELECT"], "question": "How many?",
    "sql": {"from": {"conds": []}, "limit": None},
}  # fmt: skip
ROWS = {
    "six-gym": SIX_GYM, "bird-critic": CRITIC, "bird-critic-preview": PREVIEW, "livesqlbench": LIVE, "bird": BIRD,
    "spider": SPIDER,
}  # fmt: skip


def write(path: Path, rows: list[dict]) -> Path:
    text = json.dumps(rows, indent=1) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text)
    return path


def test_mini_dev_is_read_as_bird_and_given_back_as_itself(tmp_path):
    [item] = import_file(write(tmp_path / "mini_dev.json", [BIRD])).items
    assert export_row(item, FORMATS["mini-dev"]) == BIRD


@pytest.mark.parametrize("name", ROWS)
def test_a_row_comes_back_field_for_field(tmp_path, name):
    form = FORMATS[name]
    path = write(tmp_path / f"rows.{form.container}", [ROWS[name]])
    result = import_file(path)
    assert (result.format.name, result.broken) == (name, [])
    [item] = result.items
    assert isinstance(item, Instance if form.kind == "issue" else GenerationTask)
    stored = type(item).model_validate_json(item.model_dump_json())  # by way of our own file
    assert export_row(stored, form) == ROWS[name]
    assert list(export_row(stored, form)) == list(ROWS[name])


def test_rows_without_an_id_get_one_and_lose_it_again(tmp_path):
    [task] = import_file(write(tmp_path / "train.json", [BIRD_TRAIN])).items
    assert task.instance_id == "train#1"
    assert export_row(task, FORMATS["bird"]) == BIRD_TRAIN


def test_meaning_is_normalised(tmp_path):
    [critic] = import_file(write(tmp_path / "a.jsonl", [CRITIC])).items
    assert (critic.category, critic.model_extra["efficiency"]) == ("query", True)
    [preview] = import_file(write(tmp_path / "b.jsonl", [PREVIEW])).items
    assert (preview.db_id, preview.issue_sql, preview.preprocess_sql) == ("financial", ["SELECT 1"], [])
    [live] = import_file(write(tmp_path / "c.jsonl", [LIVE])).items
    assert (live.question, live.difficulty, live.model_extra["conditions"]) == (
        "Rank the signals.", "Challenging", {"decimal": 2, "order": True},
    )  # fmt: skip
    [bird] = import_file(write(tmp_path / "d.json", [BIRD])).items
    assert (bird.instance_id, bird.sol_sql) == ("3", ["SELECT a FROM t"])


def test_changes_made_since_are_exported(tmp_path):
    [critic] = import_file(write(tmp_path / "a.jsonl", [CRITIC])).items
    changed = critic.model_copy(update={"category": "management", "sol_sql": ["SELECT 2;"]})
    row = export_row(changed, FORMATS["bird-critic"])
    assert row == {**CRITIC, "category": "Management", "sol_sql": ["SELECT 2;"]}
    [bird] = import_file(write(tmp_path / "d.json", [BIRD])).items
    assert export_row(bird.model_copy(update={"instance_id": "9x"}), FORMATS["bird"])["question_id"] == "9x"


def test_an_unknown_field_of_our_own_name_survives(tmp_path):
    row = {**SIX_GYM, "source": "https://example.org/q/1", "difficulty": 3, "bug": ["x"]}
    form = FORMATS["six-gym"]
    [item] = import_file(write(tmp_path / "a.jsonl", [row]), form).items
    assert item.bug is None
    assert export_row(item, form) == row


def test_our_issues_become_public_rows_and_come_back(tmp_path):
    ours = Instance(
        instance_id="gym_a_0", db_id="a", version="3.50", category="management", query="Please.",
        issue_sql=["SELECT 1"], sol_sql=["SELECT 2"], test_cases=[{"kind": "result", "ordered": True}],
    )  # fmt: skip
    form = FORMATS["six-gym"]
    row = export_row(ours, form)
    assert list(row) == list(form.fields)
    assert (row["category"], row["dialect"]) == ("Management", "SQLite")
    write_rows(tmp_path / "out.jsonl", form.container, [row])
    [back] = import_file(tmp_path / "out.jsonl").items
    assert back.test_cases == ours.test_cases
    assert (back.query, back.category, back.sol_sql) == (ours.query, ours.category, ours.sol_sql)


BUG = {"kind": "lost_distinct", "family": "projection", "cause": "Rows repeat.", "intent": "Each once."}
OWN = {"bug": BUG, "difficulty": "moderate", "source": {"rewinder": "taxonomy", "verified_sql": "generated#3"}}
OURS = Instance(
    instance_id="gym_a_0", db_id="a", category="management", query="Please.", issue_sql=["SELECT 1"],
    sol_sql=["SELECT 2"], test_cases=[{"kind": "result"}], hint="kept", **OWN,
)  # fmt: skip
TASK = GenerationTask(
    instance_id="t7", db_id="a", question="Which?", sol_sql=["SELECT 1"], evidence="E", source={"x": 1}
)


@pytest.mark.parametrize("name", ["six-gym", "bird-critic", "bird-critic-preview", "livesqlbench", "bird", "spider"])
def test_what_only_we_know_survives_a_public_form(tmp_path, name):
    form = FORMATS[name]
    ours = OURS if form.kind == "issue" else TASK
    row = export_row(ours, form)
    assert set(row) <= {*form.fields, "birdrl", "hint"}
    write_rows(tmp_path / f"out.{form.container}", form.container, [row])
    for result in (
        import_file(tmp_path / f"out.{form.container}"),
        import_file(tmp_path / f"out.{form.container}", form),
    ):
        assert (result.items, result.broken) == ([ours], [])
        assert export_row(result.items[0], form) == row


def test_what_is_found_out_about_an_imported_row_survives_too(tmp_path):
    form = FORMATS["six-gym"]
    [item] = import_file(write(tmp_path / "a.jsonl", [SIX_GYM])).items
    rated = item.model_copy(update={"difficulty": "simple"})
    row = export_row(rated, form)
    assert {name: value for name, value in row.items() if name != "birdrl"} == SIX_GYM
    [back] = import_file(write(tmp_path / "b.jsonl", [row])).items
    assert back == rated
    assert export_row(back.model_copy(update={"difficulty": ""}), form) == SIX_GYM


def test_a_field_of_our_name_that_is_not_ours_is_kept(tmp_path):
    row = {**SIX_GYM, "birdrl": {"tweets": 3}}
    [item] = import_file(write(tmp_path / "a.jsonl", [row])).items
    assert export_row(item, FORMATS["six-gym"]) == row
    bad = {**SIX_GYM, "birdrl": {"bug": {"kind": "x"}}}
    [broken] = import_file(write(tmp_path / "b.jsonl", [bad])).broken
    assert (broken.field, broken.message) == ("birdrl", "bug.family: Field required")


def test_a_row_of_the_other_kind_is_refused():
    task = GenerationTask(instance_id="1", db_id="a", question="?")
    with pytest.raises(InputError, match="format six-gym holds issues, this is not one"):
        export_row(task, FORMATS["six-gym"])


BROKEN = [
    ('{"instance_id": "x", "db_id"', "", "not valid JSON"),
    ("[1, 2]", "", "expected an object, got list"),
    (json.dumps({**SIX_GYM, "issue_sql": 5}), "issue_sql", "expected a statement or a list of statements, got int"),
    (json.dumps({**SIX_GYM, "issue_sql": []}), "issue_sql", "at least 1 item"),
    (json.dumps({**SIX_GYM, "category": "Poetry"}), "category", "expected one of query, management"),
    (json.dumps({**SIX_GYM, "query": None}), "query", "expected a text, got null"),
    (json.dumps({**SIX_GYM, "test_cases": [{"kind": "magic"}]}), "test_cases", "magic"),
    (json.dumps({k: v for k, v in SIX_GYM.items() if k != "db_id"}), "db_id", "missing"),
    (json.dumps(SIX_GYM), "instance_id", "'TRAIN_0' stands in row 1 already"),
]


@pytest.mark.parametrize(("line", "field", "message"), BROKEN)
def test_a_broken_row_is_named_and_set_aside(tmp_path, line, field, message):
    path = tmp_path / "rows.jsonl"
    last = {**SIX_GYM, "instance_id": "TRAIN_2"}
    path.write_text(f"{json.dumps(SIX_GYM)}\n\n{line}\n{json.dumps(last)}\n")
    result = import_file(path)
    assert [item.instance_id for item in result.items] == ["TRAIN_0", "TRAIN_2"]
    [broken] = result.broken
    assert (broken.line, broken.row, broken.field) == (3, 2, field)
    assert message in broken.message
    assert str(broken).startswith(f"{path}, line 3 (row 2)")


def test_a_row_of_a_json_list_is_named_by_its_line(tmp_path):
    path = write(tmp_path / "dev.json", [BIRD, {**BIRD, "question_id": 4, "SQL": None}])
    [broken] = import_file(path).broken
    assert (broken.line, broken.row, broken.field) == (10, 2, "SQL")


def test_a_broken_list_is_an_error_with_its_place(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(f"[{json.dumps(BIRD)},\n{{'a': 1}}]")
    with pytest.raises(InputError, match=r"dev.json, line 2 \(row 2\): not valid JSON"):
        import_file(path)


@pytest.mark.parametrize(
    ("end", "message"),
    [("", "line 3: the list does not end, the file is cut short"), ("]\n[1]", r"line 3: there is more behind .*\[1\]")],
)
def test_a_list_that_does_not_end_where_it_should_is_an_error(tmp_path, end, message):
    path = tmp_path / "dev.json"
    path.write_text(f"[{json.dumps(BIRD)},\n{json.dumps({**BIRD, 'question_id': 4})}\n{end}")
    with pytest.raises(InputError, match=message):
        import_file(path)


def test_files_that_are_none_of_ours_are_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        detect(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="not a format that is known"):
        detect(write(tmp_path / "x.jsonl", [{"a": 1}]))
    with pytest.raises(InputError, match="no format 'birds'; formats are: birdrl"):
        named("birds")
    (tmp_path / "latin.jsonl").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(InputError, match="not UTF-8"):
        detect(tmp_path / "latin.jsonl")


def test_gold_lines(tmp_path):
    path = tmp_path / "gold.sql"
    text = "SELECT 1\tshop\n\nno database\nSELECT 'a\tb'\tshop\nSELECT 'a\u2028b'\tshop\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    result = import_file(path)
    golds = ["SELECT 1", "SELECT 'a\tb'", "SELECT 'a\u2028b'"]
    assert [(t.db_id, t.sol_sql) for t in result.items] == [("shop", [gold]) for gold in golds]
    assert [(b.line, b.field) for b in result.broken] == [(3, "db_id")]
    form = FORMATS["spider-gold"]
    write_rows(tmp_path / "out.sql", form.container, [export_row(item, form) for item in result.items])
    assert (tmp_path / "out.sql").read_text() == "".join(f"{gold}\tshop\n" for gold in golds)


def test_gold_lines_hold_each_query_on_one(tmp_path):
    form, out = FORMATS["spider-gold"], tmp_path / "out.sql"

    def written(*statements: str) -> str:
        task = GenerationTask(instance_id="1", db_id="a", question="", sol_sql=list(statements))
        write_rows(out, form.container, [export_row(task, form)])
        return out.read_text()

    assert written("SELECT a\r\n  FROM t\n") == "SELECT a FROM t\ta\n"
    for broken, message in (
        (["SELECT 'a\nb'"], "a comment or a literal goes over the end of a line"),
        (["SELECT a -- all\nFROM t"], "a comment or a literal"),
        ([], "no SQL, which gold lines need"),
    ):
        with pytest.raises(InputError, match=f"out.sql, row 1: {message}"):
            written(*broken)
    assert out.read_text() == "SELECT a FROM t\ta\n", "what was there before stays"


def test_no_preprocess_sql_may_be_said_by_null(tmp_path):
    row = {**SIX_GYM, "preprocess_sql": None, "clean_up_sql": None}
    [item] = import_file(write(tmp_path / "a.jsonl", [row])).items
    assert (item.preprocess_sql, item.clean_up_sql) == ([], [])
    assert export_row(item, FORMATS["six-gym"]) == row


FILES = [
    ("birdcritic/six_gym_samples/six_gym_pg_6.jsonl", "six-gym", 6),
    ("birdcritic/pg_public_fields/postgresql_300_public.jsonl", "bird-critic", 300),
    ("birdcritic/official_preview_2025_01/preview_141_public_fields.jsonl", "bird-critic-preview", 141),
    ("bird/dev.json", "bird", 1534),
    ("bird/mini_dev_sqlite.json", "bird", 500),
    ("spider/dev.json", "spider", 1034),
    ("spider/train_gold.sql", "spider-gold", 8659),
]


@pytest.mark.parametrize(("file", "name", "count"), FILES)
def test_published_files_are_read_and_given_back(file, name, count):
    path = SHARED / file
    if not path.is_file():
        pytest.skip(f"no published file at {path}; set BIRDRL_SHARED_DATA")
    result = import_file(path)
    assert (result.format.name, len(result.items) + len(result.broken)) == (name, count)
    assert [str(row) for row in result.broken] == []
    raw = [row.values for row in read_rows(path, result.format.container)]
    assert [export_row(item, result.format) for item in result.items] == raw

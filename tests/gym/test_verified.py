"""The query generator and the readers of gold files."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random

import apsw
import pytest
import sqlglot
from sqlglot import exp

from birdrl.errors import InputError
from birdrl.gym.domains import DOMAINS
from birdrl.gym.querygen.generate import pointless_join
from birdrl.gym.querygen.source import owned
from birdrl.gym.templates import TemplateStore, open_template
from birdrl.gym.values import ColumnKind, DatabaseValues, literal
from birdrl.gym.verified import VerifiedSql, generate_verified, read_gold_files
from birdrl.params import load_params
from birdrl.stages.registry import StageContext
from birdrl.stages.templates import run

FEATURES = (
    "Where Join LeftJoin Group Having Order Limit Distinct Subquery Exists In Not CTE Window RowNumber Case Between "
    "Like Is Union Intersect Except Coalesce TimeToStr Avg Sum Max Min Count Or And Round"
)  # sqlglot node names; LeftJoin is ours
REAL_DATA = Path(os.environ.get("BIRDRL_SHARED_DATA", "../shared/data"))


def make_store(out: Path, **templates: object) -> TemplateStore:
    params = load_params("smoke", {f"templates.{key}": value for key, value in templates.items()})
    out.mkdir(parents=True)
    run(StageContext("templates", params, out.parent, out, out.parent / "work"))
    return TemplateStore(out)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TemplateStore:
    kept = {"bank_loans", "retail_orders", "museum"}
    return make_store(tmp_path_factory.mktemp("store") / "out", scale=0.3, skip=sorted(set(DOMAINS) - kept))


@pytest.fixture(scope="module")
def generated(store: TemplateStore) -> list[VerifiedSql]:
    return [v for db_id in store.db_ids for v in generate_verified(store, db_id, 7, 100)]


def test_every_generated_query_runs_gives_rows_and_is_written_canonically(
    store: TemplateStore, generated: list[VerifiedSql]
) -> None:
    assert len(generated) == 300
    assert len({(v.db_id, v.sql) for v in generated}) == 300
    assert len({v.source_id for v in generated}) == 300
    for query in generated:
        with open_template(store.path(query.db_id)) as connection:
            rows = connection.execute(query.sql).fetchall()
        assert 0 < len(rows) <= 2000
        assert any(value is not None for row in rows for value in row)
        assert sqlglot.parse_one(query.sql, read="sqlite").sql(dialect="sqlite") == query.sql
        assert query.question
        assert query.question[-1] in ".?"


def test_generated_queries_are_short_and_varied(generated: list[VerifiedSql]) -> None:
    lengths = [len(v.sql) for v in generated]
    assert max(lengths) <= 260
    assert 90 <= sum(lengths) / len(lengths) <= 140
    seen: Counter[str] = Counter()
    for query in generated:
        tree = sqlglot.parse_one(query.sql, read="sqlite")
        seen.update({type(node).__name__ for node in tree.walk()})
        seen.update({"LeftJoin" for join in tree.find_all(exp.Join) if join.side == "LEFT"})
    for feature in FEATURES.split():
        assert seen[feature] >= 1, f"no {feature} in {sorted(seen)}"
    assert seen["Where"] >= 100
    assert seen["Join"] >= 40
    assert seen["Group"] >= 40


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT COUNT(*) FROM loans AS l JOIN clients AS c ON l.client_id = c.client_id WHERE l.amount > 5", True),
        ("SELECT COUNT(*) FROM loans AS l JOIN clients AS c ON l.client_id = c.client_id WHERE c.income > 5", False),
        ("SELECT client_name FROM loans JOIN clients ON loans.client_id = clients.client_id", False),
        ("SELECT c.client_id FROM clients AS c LEFT JOIN loans AS l ON l.client_id = c.client_id", False),
        ("SELECT b.city FROM loans AS l JOIN clients AS c ON l.client_id = c.client_id "
         "JOIN branches AS b ON c.branch_id = b.branch_id", False),
    ],
)  # fmt: skip
def test_a_join_that_nothing_needs_is_noticed(store: TemplateStore, sql: str, expected: bool) -> None:
    assert pointless_join(sql, store.schema("bank_loans")) is expected


def test_the_same_seed_gives_the_same_queries_and_a_shorter_list_is_a_prefix(store: TemplateStore) -> None:
    first = generate_verified(store, "museum", 3, 20)
    assert generate_verified(store, "museum", 3, 20) == first
    assert generate_verified(store, "museum", 3, 8) == first[:8]
    assert generate_verified(store, "museum", 4, 20) != first


def test_column_kinds_and_sample_values(store: TemplateStore) -> None:
    values = DatabaseValues(store, "bank_loans")
    kinds = {c: values.profile(t, c).kind for t, c in (
        ("clients", "client_id"), ("clients", "branch_id"), ("clients", "client_name"), ("clients", "birth_date"),
        ("loans", "purpose"), ("loans", "amount"), ("loans", "rate"),
    )}  # fmt: skip
    assert kinds == {
        "client_id": ColumnKind.KEY, "branch_id": ColumnKind.KEY, "client_name": ColumnKind.TEXT,
        "birth_date": ColumnKind.DATE, "purpose": ColumnKind.CATEGORY, "amount": ColumnKind.INTEGER,
        "rate": ColumnKind.REAL,
    }  # fmt: skip
    sample = values.sample("LOANS", "purpose", Random(1), 3)
    assert sample == values.sample("loans", "purpose", Random(1), 3)
    assert len(set(sample)) == 3
    assert set(sample) <= {"car", "house", "study", "business", "holiday"}
    assert values.profile("clients", "client_id").unique
    assert not values.profile("loans", "purpose").unique
    assert values.profile("payments", "method").nulls > 0
    with pytest.raises(KeyError, match=r"bank_loans: no column loans\.colour"):
        values.profile("loans", "colour")
    values.close()


@pytest.mark.parametrize("value", ["it's", 5, -2.5, None, b"\x00\xff", ""])
def test_a_literal_reads_back_as_its_value(value: object) -> None:
    with apsw.Connection(":memory:") as connection:
        assert connection.execute(f"SELECT {literal(value)}").fetchall() == [(value,)]  # type: ignore[arg-type]


def test_gold_rows_are_accepted_or_rejected_with_their_reason(store: TemplateStore, tmp_path: Path) -> None:
    bird = tmp_path / "bird.json"
    bird.write_text(json.dumps([
        {"question_id": 41, "db_id": "museum", "question": "How many rooms?", "SQL": "SELECT count(*) FROM rooms;"},
        {"question_id": 42, "db_id": "museum", "SQL": "SELECT room_name FROM rooms WHERE floor > 99"},
        {"question_id": 43, "db_id": "museum", "SQL": "SELECT nope FROM rooms"},
        {"question_id": 44, "db_id": "atlantis", "SQL": "SELECT 1"},
        {"question_id": 45, "db_id": "museum", "SQL": "SELECT room_name FROM rooms LIMIT 1"},
        {"question_id": 46, "db_id": "museum", "SQL": "SELECT COUNT(*) FROM rooms"},
    ]))  # fmt: skip
    spider = tmp_path / "spider.json"
    spider.write_text(json.dumps([{"db_id": "museum", "query": "SELECT max(area) FROM rooms", "question": "Largest?"}]))
    lines = tmp_path / "gold.sql"
    lines.write_text("SELECT min(area) FROM rooms\tmuseum\n\nSELECT sum(area) FROM rooms\tmuseum\n")
    accepted, rejected = read_gold_files([bird, spider, str(lines)], store)
    assert accepted == [
        VerifiedSql("museum", "SELECT COUNT(*) FROM rooms", "bird.json#41", "How many rooms?"),
        VerifiedSql("museum", "SELECT MAX(area) FROM rooms", "spider.json#1", "Largest?"),
        VerifiedSql("museum", "SELECT MIN(area) FROM rooms", "gold.sql#1", None),
        VerifiedSql("museum", "SELECT SUM(area) FROM rooms", "gold.sql#3", None),
    ]
    reasons = {r.row: r.reason for r in rejected}
    assert sorted(reasons) == [2, 3, 4, 5, 6]
    expected = ("empty", "no such column: nope", "unknown database 'atlantis'", "non-deterministic", "duplicate")
    for row, part in zip(range(2, 7), expected, strict=True):
        assert part in reasons[row]
    assert {r.path for r in rejected} == {str(bird)}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"db_id": "x"}', "a.json: expected a JSON list"),
        ("a.json", '[{"db_id": "museum"}]', "row 1: needs the text fields db_id and SQL"),
        ("a.json", "[1]", "row 1: expected an object, got int"),
        ("a.json", "[", "not valid JSON"),
        ("a.sql", "SELECT 1\n", "line 1: expected SQL<TAB>db_id"),
    ],
)
def test_a_malformed_gold_file_is_an_input_error(
    store: TemplateStore, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_gold_files([tmp_path / name], store)
    with pytest.raises(InputError, match="no such file"):
        read_gold_files([tmp_path / "gone.sql"], store)


def test_the_spider_dev_set_is_mostly_usable(tmp_path: Path) -> None:
    folder = REAL_DATA / "spider"
    if not (folder / "database").is_dir():
        pytest.skip(f"needs the Spider data under {folder}; set BIRDRL_SHARED_DATA")
    names = {row["db_id"] for row in json.loads((folder / "dev.json").read_text())}
    everything = sorted(p.name for p in (folder / "database").iterdir())
    store = make_store(
        tmp_path / "out", source="directory", directory=str(folder / "database"),
        skip=[name for name in everything if name not in names],
    )  # fmt: skip
    accepted, rejected = read_gold_files([folder / "dev.json"], store)
    kinds = Counter(r.reason.split(":")[0] for r in rejected)
    assert len(accepted) >= 450
    assert len({v.db_id for v in accepted}) == 19
    assert kinds["unknown database 'wta_1'"] == 62
    assert all("without any row" in r.reason for r in rejected if r.db_id == "wta_1")
    assert kinds["does not execute"] == kinds["does not parse"] == 0


def test_a_column_named_after_its_owner_is_said_once():
    assert owned("player ", "player name") == "player name"
    assert owned("order ", "date") == "order date"
    assert owned("", "date") == "date"

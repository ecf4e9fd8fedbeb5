"""Verdicts: comparison of results and states, test cases, and whose fault it is when there is none."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from birdrl.compare.state import read_state
from birdrl.errors import GoldError
from birdrl.gym.database_folder import DatabaseFolder
from birdrl.gym.instance import PlanTest, PythonTest
from birdrl.rewards import ExecutionScorer
from birdrl.rewards.gold import GoldStore, Reference, UnsteadyGoldError
from birdrl.scoring.gate_zero import check
from birdrl.scoring.judge import Judge
from birdrl.scoring.suite import perturbations
from birdrl.scoring.tasks import Task
from birdrl.sql import PoolConfig, ReplicaPool

JudgeIn = Callable[[str], Judge]
INSERT = "INSERT INTO maker VALUES (3, 'Cy')"
BY_NAME = "SELECT id FROM item WHERE name = 'saw'"
ODD_INDEX = 'CREATE INDEX "a b" ON item(name)'
STRICT_MODES = ("multiset", "critic_strict")


@pytest.fixture(scope="module")
def scorer(databases: DatabaseFolder, pool: ReplicaPool) -> ExecutionScorer:
    return ExecutionScorer(databases, pool)


def task(*gold: str, **fields: object) -> Task:
    return Task("q", "shop", gold, **fields)


CASES = [
        (["UPDATE item SET stock = 1 WHERE id = 2"], ["UPDATE item SET stock = stock + 1 WHERE name = 'nut'"], True),
        (["UPDATE item SET stock = 1 WHERE id = 2"], ["UPDATE item SET stock = 2 WHERE id = 2"], False),
        (["DELETE FROM item WHERE id = 1"], ["DELETE FROM item WHERE name = 'bolt'"], True),
        (["DELETE FROM item WHERE id = 1"], ["DELETE FROM item"], False),
        (["CREATE INDEX a ON item(name)"], ["CREATE INDEX b ON item(name)"], True),
        (["CREATE INDEX a ON item(name)"], ["CREATE UNIQUE INDEX a ON item(name)"], False),
        (["CREATE INDEX a ON item(name)"], ["CREATE INDEX a ON item(name DESC)"], False),
        (["CREATE INDEX a ON item(name)"], ["SELECT 1"], False),
        (["CREATE TABLE n (a INT, b TEXT DEFAULT 'x')"], ["create table n(a INT,b TEXT DEFAULT 'x')"], True),
        (["CREATE TABLE n (a INT, b TEXT DEFAULT 'x')"], ["CREATE TABLE n (a INT, b TEXT)"], False),
        (["CREATE VIEW v AS SELECT name FROM item"], ["CREATE VIEW v AS SELECT i.name AS name FROM item i"], True),
        (["CREATE VIEW v AS SELECT name FROM item"], ["CREATE VIEW v AS SELECT name FROM maker"], False),
        (
            ["CREATE TRIGGER a AFTER INSERT ON item BEGIN DELETE FROM maker; END"],
            ["create trigger if not exists b after insert on item begin delete from maker; end;"],
            True,
        ),
        (
            ["CREATE TRIGGER a AFTER INSERT ON item BEGIN DELETE FROM maker; END"],
            ["CREATE TRIGGER a AFTER INSERT ON item BEGIN DELETE FROM item; END"],
            False,
        ),
        ([INSERT, "SELECT count(*) FROM maker"], [INSERT, "SELECT 3"], True),
        ([INSERT, "SELECT count(*) FROM maker"], [INSERT, "SELECT 2"], False),
        ([INSERT, "SELECT count(*) FROM maker"], ["SELECT 3"], False),
        (["DELETE FROM item WHERE id = 1 RETURNING name"], ["DELETE FROM item WHERE id = 1 RETURNING name"], True),
        (["SELECT count(*) FROM item"], ["SELECT count(*) FROM item; DELETE FROM item"], False),
        (["SELECT count(*) FROM item"], ["BEGIN; SELECT count(*) FROM item; COMMIT"], True),
    ]  # fmt: skip


@pytest.mark.parametrize("mode", STRICT_MODES)
@pytest.mark.parametrize(("gold", "pred", "right"), CASES)
def test_results_and_states(mode: str, gold: list[str], pred: list[str], right: bool, judge_in: JudgeIn) -> None:
    verdict = judge_in(mode).judge(task(*gold), pred)
    assert verdict.verdict == int(right), verdict.reason


@pytest.mark.parametrize(("gold", "pred", "right"), [case for case in CASES if not case[0][0].startswith("SELECT")])
def test_the_reward_judges_an_answer_to_a_gold_that_writes_alike(
    gold: list[str], pred: list[str], right: bool, scorer: ExecutionScorer
) -> None:
    score = scorer.score(task(*gold), pred)
    assert score.reward == int(right), score.reason
    assert scorer.score(task(*gold), ["SELEC"]).reward == 0


UNSTOPPABLE = "instr(hex(zeroblob(499000)), hex(zeroblob(240000)) || '1')"
ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i FROM r"


@pytest.mark.parametrize(
    ("gold", "pred", "reason"),
    [
        (["SELECT count(*) FROM item"], [f"CREATE VIEW v AS {ENDLESS}", "SELECT 5"], "view v"),
        (["CREATE VIEW v AS SELECT 1 AS i"], [f"CREATE VIEW v AS {ENDLESS}"], "view v"),
        (["CREATE VIEW v AS SELECT 1 AS i"], [f"CREATE VIEW v AS {ENDLESS} WHERE i < 0"], "cannot be read"),
        (["DELETE FROM item"], [f"CREATE VIEW v AS {ENDLESS}", "DELETE FROM item"], "view v"),
        ([INSERT], [INSERT, f"CREATE TABLE m AS {ENDLESS} LIMIT 9999"], "table m"),
        (["CREATE VIEW v AS SELECT 1 AS i"], [f"CREATE VIEW v AS SELECT {UNSTOPPABLE} AS i"], "cannot be read"),
    ],
)  # fmt: skip
def test_a_state_that_cannot_be_read_is_the_predictions_own(
    gold: list[str], pred: list[str], reason: str, judge_in: JudgeIn, scorer: ExecutionScorer
) -> None:
    start = time.monotonic()
    verdict = judge_in("multiset").judge(task(*gold), pred)
    assert (verdict.verdict, verdict.blame) == (0, "policy")
    assert reason in verdict.reason
    if not gold[0].startswith("SELECT"):
        score = scorer.score(task(*gold), pred)
        assert (score.reward, score.blame) == (0.0, "policy")
        assert reason in score.reason
    assert time.monotonic() - start < 30  # without a limit of its own it would not end


def test_states_of_large_and_of_odd_tables(databases: DatabaseFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than are read at a time, more bytes than one answer takes, and tables without row numbers."""
    monkeypatch.setattr("birdrl.compare.state._CHUNK_ROWS", 200)
    make = f"""
        CREATE TABLE many AS {ENDLESS} LIMIT 600;
        CREATE TABLE large AS SELECT i, zeroblob(100000) AS b FROM many LIMIT 180;
        CREATE TABLE named (rowid TEXT, oid TEXT);
        INSERT INTO named SELECT i, -i FROM many;
        CREATE TABLE bare (a PRIMARY KEY, b) WITHOUT ROWID;
        INSERT INTO bare SELECT i, -i FROM many;
        CREATE TABLE below (a INTEGER PRIMARY KEY);
        INSERT INTO below SELECT -i FROM many;
        CREATE VIRTUAL TABLE found USING fts5(t);
        INSERT INTO found VALUES ('a b'), ('c');
    """
    changes = """
        UPDATE many SET i = -1 WHERE i = 600; UPDATE large SET b = 'x' WHERE i = 180; DELETE FROM named WHERE oid = -1;
        UPDATE bare SET b = 0 WHERE a = 600; UPDATE below SET a = 1 WHERE a = -600; INSERT INTO found VALUES ('d');
    """
    with (
        ReplicaPool(PoolConfig(workers=1, statement_timeout_s=60.0)) as pool,
        pool.acquire("state", databases.path("shop")) as lease,
    ):
        assert lease.execute(make)[-1].ok
        before = read_state(lease, 300.0)
        assert lease.execute(changes)[-1].ok
        after = read_state(lease, 300.0, before)
    changed = {
        name for kind, name in before.parts if kind == "rows" and before.parts[kind, name] != after.parts[kind, name]
    }
    assert changed - {name for name in changed if name.startswith("found_")} == {
        "many", "large", "named", "bare", "below", "found",
    }  # fmt: skip
    assert before.parts["rows", "many"].startswith("600:")
    assert after.parts["rows", "found"] == "3:", "no row beyond what can be equal is looked at"


def test_preprocessing_runs_on_both_sides(judge_in: JudgeIn) -> None:
    prepared = task("SELECT count(*) FROM item WHERE stock > 0", preprocess_sql=("DELETE FROM item WHERE id = 1",))
    assert judge_in("multiset").judge(prepared, ["SELECT 3"]).verdict == 1
    assert judge_in("multiset").judge(prepared, ["SELECT 4"]).verdict == 0


@pytest.mark.parametrize(
    ("instance", "reason"),
    [
        (task("SELECT nothing FROM item"), "sol_sql fails"),
        (task("SELECT random()"), "unsteady"),
        (task("SELECT julianday('now') + random() % 1000"), "unsteady"),
        (task("PRAGMA synchronous"), "changes nothing"),
        (task("SELECT 1", preprocess_sql=("DROP TABLE absent",)), "preprocess_sql fails"),
    ],
)
def test_a_bad_gold_is_no_verdict(instance: Task, reason: str, judge_in: JudgeIn) -> None:
    verdict = judge_in("multiset").judge(instance, ["SELECT 1"])
    assert (verdict.verdict, verdict.blame) == (None, "gold")
    assert reason in verdict.reason


def test_an_unsteady_gold_is_quarantined_and_not_run_again(databases: DatabaseFolder, pool: ReplicaPool) -> None:
    gold = GoldStore(databases, pool)
    reference = Reference("r", "shop", ("SELECT random()",))
    with pytest.raises(UnsteadyGoldError, match="two runs give two results"):
        gold.get(reference)
    leases = pool.counters.leases
    with pytest.raises(UnsteadyGoldError):
        gold.get(reference)
    assert pool.counters.leases == leases
    assert gold.quarantined == {"r": "two runs give two results"}
    writes = Reference("w", "shop", ("UPDATE item SET stock = random()",), probes=("SELECT stock FROM item",))
    with pytest.raises(GoldError, match="two states"):
        gold.get(writes)


def test_a_gold_is_run_once_and_one_that_reads_the_clock_each_time(
    databases: DatabaseFolder, pool: ReplicaPool
) -> None:
    gold = GoldStore(databases, pool)
    for sql, leases in (("SELECT count(*) FROM item", 1), ("SELECT date('now') > '2000-01-01'", 3)):
        before = pool.counters.leases
        for _ in range(3):
            gold.get(Reference("c", "shop", (sql,)))
        assert pool.counters.leases - before == leases


@pytest.mark.parametrize(
    ("pred", "status"),
    [
        (["SELECT 1" + " " * 600_000], "error"),
        (["SELECT '\ud800'"], "error"),
        (["selec"], "error"),
        ([], "empty"),
        (["  "], "empty"),
        ([";"], "empty"),
    ],
    ids=["long", "not text", "no statement", "nothing", "blank", "semicolon"],
)
def test_the_policy_is_to_blame_for_its_statements(pred: list[str], status: str, judge_in: JudgeIn) -> None:
    verdict = judge_in("multiset").judge(task("SELECT 1"), pred)
    assert (verdict.verdict, verdict.status, verdict.blame) == (0, status, "policy")


GROWS = (
    "def test_case(pred_sqls, sol_sqls, db_path, conn):\n"
    "    execute_queries(pred_sqls, db_path, conn)\n"
    "    assert conn.execute('SELECT stock FROM item WHERE id = 2').fetchone()[0] == 1"
)


def test_compat_and_strict_disagree_where_the_public_sequence_runs_twice(judge_in: JudgeIn) -> None:
    grows = task(
        "UPDATE item SET stock = stock + 1 WHERE id = 2",
        issue_sql=("SELECT 1",),
        test_cases=(PythonTest(source=GROWS),),
    )
    compat = judge_in("critic_compat").judge(grows, grows.sol_sql)
    assert (compat.verdict, compat.strict) == (0, 1)
    strict = judge_in("critic_strict").judge(grows, grows.sol_sql)
    assert (strict.verdict, strict.strict) == (1, None)


def test_compat_fails_an_instance_whose_issue_passes(judge_in: JudgeIn) -> None:
    test = PythonTest(source="def test_case(p, s, d, conn): pass")
    passes = task("SELECT 1", issue_sql=("SELECT 2",), test_cases=(test,))
    verdict = judge_in("critic_compat").judge(passes, ["SELECT 1"])
    assert (verdict.verdict, verdict.strict) == (0, 1)
    assert "issue SQL passes" in verdict.reason


def test_compat_gives_issue_and_prediction_a_fresh_database_each(judge_in: JudgeIn) -> None:
    counts = PythonTest(source="def test_case(p, s, d, conn): assert execute_queries(p, d, conn)[0] == [(4,)]")
    instance = task(
        "SELECT count(*) FROM item",
        preprocess_sql=("DELETE FROM item WHERE id = 1",),
        issue_sql=("DELETE FROM item",),
        test_cases=(counts,),
    )
    for _ in range(2):
        verdict = judge_in("critic_compat").judge(instance, instance.sol_sql)
        assert (verdict.verdict, verdict.strict) == (1, 1), verdict.reason


@pytest.mark.parametrize(
    ("test", "pred", "passes"),
    [
        (PlanTest(index="by_name"), ["CREATE INDEX by_name ON item(name)", BY_NAME], True),
        (PlanTest(index="by_name"), ["CREATE INDEX by_name ON item(name)", "SELECT price FROM item"], False),
        (PlanTest(table="item", query_sql=BY_NAME), ["CREATE INDEX x ON item(name, id)"], True),
        (PlanTest(table="item", query_sql=BY_NAME), ["SELECT 1"], False),
        (PlanTest(table="item", query_sql="SELECT 1 FROM item i WHERE i.name = 1"), [ODD_INDEX], True),
        (PlanTest(table="maker", query_sql=BY_NAME), ["CREATE INDEX x ON item(name)"], False),
    ],
)  # fmt: skip
def test_plans(test: PlanTest, pred: list[str], passes: bool, databases: DatabaseFolder, pool: ReplicaPool) -> None:
    score = ExecutionScorer(databases, pool).score(task("SELECT 1", test_cases=(test,)), pred)
    assert score.reward == int(passes), score.reason


def test_gate_zero_names_what_does_not_hold(judge_in: JudgeIn) -> None:
    python = PythonTest(source="def test_case(p, s, d, conn): assert len(conn.execute(p[-1]).fetchall()) == 5")
    tasks = [
        Task("good", "shop", ("SELECT name FROM item",), issue_sql=("SELECT name FROM maker",)),
        Task("tested", "shop", ("SELECT name FROM item",), issue_sql=("SELECT 1",), test_cases=(python,)),
        Task("same", "shop", ("SELECT 1",), issue_sql=("SELECT 1",)),
        Task("broken", "shop", ("SELECT nothing",), issue_sql=("SELECT 1",)),
        Task("hard", "shop", ("SELECT name FROM maker",), issue_sql=("SELECT 1",), test_cases=(python,)),
        Task("question", "shop", ("SELECT name FROM item",)),
        Task("managed", "shop", ("UPDATE item SET stock = 1",), issue_sql=("UPDATE item SET stock = 2",)),
        Task("as managed", "shop", ("UPDATE item SET stock = 1",), issue_sql=("UPDATE item SET stock = 2 - 1",)),
    ]
    results = {result.instance_id: result.reasons for result in check(tasks, judge_in("multiset"), 1)}
    assert {name for name, reasons in results.items() if reasons} == {"same", "broken", "hard", "as managed"}
    assert results["same"] == results["as managed"] == ("the issue is as right as the gold",)
    assert "sol_sql fails" in results["broken"][0]
    assert "the gold earns 0, not 1" in results["hard"][0]


def test_perturbed_copies_keep_foreign_keys_and_tell_luck_apart(
    databases: DatabaseFolder, pool: ReplicaPool, judge_in: JudgeIn
) -> None:
    scripts = perturbations(databases.schema("shop"), 9, seed=3)
    assert scripts == perturbations(databases.schema("shop"), 9, seed=3)
    assert len(set(scripts)) > 4
    contents = set()
    for number, script in enumerate(scripts):
        with pool.acquire(f"suite{number}", databases.path("shop")) as lease:
            assert all(result.ok for sql in script for result in lease.execute(sql)), script
            assert not lease.execute("PRAGMA foreign_key_check")[0].rows
            contents.add(lease.execute("SELECT count(*), sum(maker_id), sum(stock) FROM item")[0].rows)
    assert len(contents) > 3
    lucky, right = ["SELECT 5"], ["SELECT count(id) FROM item"]
    judge, instance = judge_in("multiset"), task("SELECT count(*) FROM item")
    assert judge.judge(instance, lucky).verdict == 1
    assert {judge.compare(instance, lucky, script).verdict for script in scripts} == {0, 1}
    assert {judge.compare(instance, right, script).verdict for script in scripts} == {1}

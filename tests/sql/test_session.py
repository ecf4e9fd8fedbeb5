"""What one session does with scripts: splitting, results, limits, denials, dirtiness."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from birdrl.sql import StatementResult
from birdrl.sql.overlay import Template
from birdrl.sql.session import Session


@pytest.fixture
def session(template: Path) -> Iterator[Session]:
    session = Session(Template(template), 16 << 20)
    yield session
    session.close()


def run(session: Session, script: str, timeout_s: float = 5.0, max_rows: int = 100) -> list[StatementResult]:
    return list(session.execute(script, timeout_s, 5 * timeout_s, max_rows))


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON sale BEGIN UPDATE item SET stock = CASE WHEN 1 THEN 2 END; SELECT 1; END;"


def test_results_carry_columns_rows_and_changes(session: Session) -> None:
    results = run(
        session,
        "SELECT id, price AS p FROM item WHERE id > 3; UPDATE item SET stock = 1 WHERE id < 3;"
        "INSERT INTO item VALUES (8, 'a', 1, 1) RETURNING name; SELECT 1 WHERE 0",
    )
    assert [result.status for result in results] == ["ok"] * 4
    assert (results[0].columns, results[0].rows, results[0].rows_changed) == (("id", "p"), ((4, None),), 0)
    assert (results[1].columns, results[1].rows_changed) == ((), 2)
    assert (results[2].columns, results[2].rows, results[2].rows_changed) == (("name",), (("a",),), 1)
    assert (results[3].columns, results[3].rows, results[3].has_table) == (("1",), (), True)


def test_the_script_stops_at_the_first_error(session: Session) -> None:
    results = run(session, "SELECT 1; SELECT nope FROM item; DELETE FROM item")
    assert [result.status for result in results] == ["ok", "error"]
    assert results[1].message == "no such column: nope"
    assert run(session, "SELECT count(*) FROM item")[0].rows == ((4,),)


@pytest.mark.parametrize("script", ["", ";;", "-- nothing", "/* ; */ ;", "-- a\n;-- b"])
def test_comments_alone_give_no_result(session: Session, script: str) -> None:
    assert run(session, script) == []


def test_comments_stay_in_the_statement(session: Session) -> None:
    results = run(session, "/* why */ SELECT 1; -- then\nSELECT 2 -- end")
    assert [result.sql for result in results] == ["/* why */ SELECT 1;", "-- then\nSELECT 2 -- end"]


def test_triggers_survive_and_fire(session: Session) -> None:
    assert all(result.ok for result in run(session, TRIGGER + "INSERT INTO sale VALUES (9, 1, 'd', 1);"))
    assert run(session, "SELECT DISTINCT stock FROM item")[0].rows == ((2,),)


@pytest.mark.parametrize(
    "script", ["SELECT 1\0", "SELECT '\ud800'", "SELEC 1", "SELECT 'open", "SELECT 1,", "x" * 600_000, "(" * 5000]
)
def test_what_is_not_sql_is_an_error_with_a_message(session: Session, script: str) -> None:
    (result,) = run(session, script)
    assert result.status == "error"
    assert result.message


def test_text_that_is_not_utf8_is_decoded_with_replacement(session: Session) -> None:
    sql = "SELECT CAST(x'ff41' AS TEXT) AS a, x'ff' AS b, 1.5, NULL, 'ü' FROM item LIMIT 2; -- end"
    (result,) = run(session, sql)
    assert result.columns == ("a", "b", "1.5", "NULL", "'ü'")
    assert result.rows == (("\ufffdA", b"\xff", 1.5, None, "ü"),) * 2
    (result,) = run(
        session, "-- c\nWITH q AS (SELECT CAST(x'ff' AS TEXT) t UNION ALL SELECT 'z') SELECT t FROM q ORDER BY t"
    )
    assert result.rows == (("z",), ("\ufffd",))


def test_text_that_is_not_utf8_among_returned_rows_is_left_out_and_the_change_stands(session: Session) -> None:
    change = "INSERT INTO item SELECT 9 + id, CAST(x'ff' AS TEXT), 1, 1 FROM item RETURNING name"
    (result,) = run(session, change)
    assert (result.status, result.columns, result.rows, result.truncated) == ("ok", ("name",), (), True)
    assert result.message == "rows with text that is not valid UTF-8 are left out"
    assert run(session, "SELECT count(*) FROM item")[0].rows == ((8,),)


def test_an_ignored_pragma_says_so(session: Session) -> None:
    results = run(session, "PRAGMA journal_mode = WAL; PRAGMA cache_size; SELECT 1; PRAGMA main.synchronous(2)")
    assert [(result.status, result.rows) for result in results] == [("ok", ()), ("ok", ()), ("ok", ((1,),)), ("ok", ())]
    notes = ["PRAGMA journal_mode is ignored", "PRAGMA cache_size is ignored", "", "PRAGMA synchronous is ignored"]
    assert [result.message for result in results] == notes


def test_a_row_beyond_all_bytes_is_left_out(session: Session) -> None:
    (result,) = run(session, f"SELECT {', '.join(['zeroblob(990000)'] * 20)}")
    assert (result.status, len(result.columns), result.rows, result.truncated) == ("ok", 20, (), True)


def test_rows_and_bytes_are_capped_and_marked(session: Session) -> None:
    (result,) = run(session, "SELECT id FROM item", max_rows=3)
    assert (len(result.rows), result.truncated) == (3, True)
    (result,) = run(session, "SELECT id FROM item", max_rows=4)
    assert (len(result.rows), result.truncated) == (4, False)
    (result,) = run(session, "SELECT hex(zeroblob(400000)) FROM item a, item b, item c, item d")
    assert result.truncated
    assert sum(len(row[0]) for row in result.rows) <= 16_000_000


def test_endless_queries_are_interrupted(session: Session) -> None:
    endless = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
    start = time.monotonic()
    (result,) = run(session, endless, timeout_s=0.1)
    assert (result.status, result.message) == ("timeout", "stopped after 0.1 s")
    assert time.monotonic() - start < 2.0
    assert run(session, "SELECT 1")[0].ok


def test_a_script_has_a_limit_of_its_own(session: Session) -> None:
    slow = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 300000) SELECT count(*) FROM r;"
    results = list(session.execute(slow * 1000, 5.0, 0.3, 10))
    assert results[-1].status == "timeout"
    assert sum(result.elapsed_s for result in results) < 2.0


def test_a_cached_statement_is_seen_again_after_renewing(session: Session) -> None:
    """A statement from the connection's cache does not call the authorizer by itself."""
    for _ in range(3):
        run(session, "BEGIN")
        run(session, "ROLLBACK")
        assert session.dirty
        session.policy.rearm(session.connection)
        assert not session.policy.dirty


def test_reopening_keeps_what_is_committed_and_drops_the_rest(session: Session) -> None:
    run(session, "UPDATE item SET stock = 5 WHERE id = 1; CREATE TEMP TABLE sale (x); PRAGMA case_sensitive_like = 1")
    run(session, "BEGIN; DELETE FROM item")
    session.reopen()
    assert session.dirty
    assert run(session, "SELECT count(*), max(stock) FROM item WHERE id = 1")[0].rows == ((1, 5),)
    assert run(session, "SELECT count(*) FROM sale; SELECT 'A' LIKE 'a'; SELECT count(*) FROM item")[0].rows == ((3,),)
    assert run(session, "SELECT 'A' LIKE 'a'")[0].rows == ((1,),)

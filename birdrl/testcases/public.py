"""The names that a public test case finds around it, as BIRD-CRITIC's evaluator for SQLite defines them.

Prediction and gold run on the test's own connection, one after the other, and a non-query commits at once.
"""

from __future__ import annotations

import datetime
import inspect
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from birdrl.compare import critic_text
from birdrl.testcases.dbapi import Connection

# As the published default: what judges an instance without test cases.
DEFAULT_TEST = """
def test_case(pred_sqls, sol_sqls, db_path, conn, conditions):
    pred_sqls = remove_round(remove_distinct(remove_comments(pred_sqls)))
    sol_sqls = remove_round(remove_distinct(remove_comments(sol_sqls)))
    result = ex_base(pred_sqls, sol_sqls, db_path, conn, conditions)
    assert result == 1, f"ex_base returned {result} but expected 1."
    return result
"""
Answer = tuple[Any, bool, bool]  # result of the last query, execution error, timeout


class PublicHelpers:
    """The evaluator's functions around one default connection, used where a test passes none."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def namespace(self, pred_query_result: Any) -> dict[str, Any]:
        """The globals of a test."""
        return {
            "perform_query_on_sqlite_databases": self.perform_query_on_sqlite_databases,
            "execute_queries": self.execute_queries,
            "ex_base": self.ex_base,
            "check_sql_function_usage": critic_text.check_sql_function_usage,
            "remove_distinct": critic_text.remove_distinct,
            "remove_comments": critic_text.remove_comments,
            "remove_round": critic_text.remove_round,
            "preprocess_results": critic_text.preprocess_results,
            "pred_query_result": pred_query_result,
            "date": datetime.date,
        }

    def perform_query_on_sqlite_databases(
        self, query: str, db_path: str, conn: Any = None, query_timeout: float = 30
    ) -> tuple[Any, Any]:
        """(rows or None, connection)."""
        conn = self.connection if conn is None else conn
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = OFF")
        cursor = conn.cursor()
        try:
            cursor.execute(query)
            if query.strip().lower().startswith(("select", "with")):
                return cursor.fetchall()[: critic_text.MAX_ROWS], conn
            conn.commit()
            return _rows_if_any(cursor), conn
        except Exception:
            conn.rollback()
            raise
        finally:
            cursor.close()

    def execute_queries(
        self,
        queries: str | Sequence[str],
        db_path: str,
        conn: Any,
        logger: Any = None,
        section_title: str = "",
        return_error: bool = False,
    ) -> Answer | tuple[Any, bool, bool, str]:
        """Run one query after the other until one fails; the result is that of the last one that ran."""
        answer = self.run([queries] if isinstance(queries, str) else queries, db_path, conn)
        return answer if return_error else answer[:3]

    def run(self, queries: Sequence[str], db_path: str, conn: Any) -> tuple[Any, bool, bool, str]:
        """(result of the last query, execution error, timeout, message)"""
        result: Any = None
        for number, query in enumerate(queries, 1):
            try:
                result, conn = self.perform_query_on_sqlite_databases(query, db_path, conn)
            except Exception as error:  # noqa: BLE001 - published behaviour: any failure is an execution error
                timeout = isinstance(error, sqlite3.OperationalError) and any(
                    words in str(error).lower() for words in ("database is locked", "timeout")
                )
                return result, not timeout, timeout, f"error in query {number}: {error}\n"
        return result, False, False, ""

    def ex_base(
        self,
        pred_sqls: Sequence[str],
        sol_sqls: Sequence[str],
        db_path: str,
        conn: Any,
        conditions: Mapping[str, Any] | None = None,
    ) -> int:
        """1 if both lists run and their last results match, else 0."""
        if not pred_sqls or not sol_sqls:
            return 0
        predicted, *pred_failed = self.execute_queries(pred_sqls, db_path, conn)
        gold, *gold_failed = self.execute_queries(sol_sqls, db_path, conn)
        if any((*pred_failed, *gold_failed)):
            return 0
        ordered = conditions is not None and bool(conditions.get("order", False))
        return int(critic_text.results_match(predicted, gold, ordered))


def _rows_if_any(cursor: Any) -> Any:
    try:
        return cursor.fetchall()
    except Exception:  # noqa: BLE001 - published behaviour
        return None


def run_test(source: str, namespace: dict[str, Any], arguments: Mapping[str, Any], *, separate: bool) -> None:
    """Define and call `test_case(pred_sqls, sol_sqls, db_path, conn[, conditions])`; it passes if it returns.

    `separate`: as published, globals and locals are two mappings, so that what the source defines or imports beside
    `test_case` is not seen inside it, and a generator, whose body never runs, passes. Raises whatever the test raises.
    """
    code = compile(f"import datetime\nfrom datetime import date\n{source}", "<test case>", "exec")
    local = dict(arguments) if separate else namespace
    exec(code, namespace, local)
    test: Callable[..., Any] = local["test_case"]
    positional = [arguments[name] for name in ("pred_sqls", "sol_sqls", "db_path", "conn")]
    answer = test(*positional, **({"conditions": arguments["conditions"]} if _takes_conditions(test) else {}))
    if not separate and (inspect.isgenerator(answer) or inspect.isawaitable(answer) or inspect.isasyncgen(answer)):
        raise TypeError("test_case is a generator or a coroutine: nothing of it has run")


def _takes_conditions(test: Callable[..., Any]) -> bool:
    code = test.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return "conditions" in names or bool(code.co_flags & 0x08)  # **kwargs

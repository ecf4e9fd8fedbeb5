"""The same names as in `public`, without its defects: what the tests of a reward see.

The prediction ran once, before any test, on a replica of its own; the gold ran on a pristine one, elsewhere. Asking for
either answers from these runs: nothing is executed twice, and neither side can touch the other. Clean-up works on
tokens instead of raw text, and results compare as in mode `critic_strict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from birdrl.compare.lexer import tokens
from birdrl.compare.modes import Criteria, mode_named
from birdrl.compare.syntax import selects_distinct, uses, without_distinct, without_output_rounds
from birdrl.compare.table import ResultTable
from birdrl.testcases.dbapi import Connection
from birdrl.testcases.public import Answer, PublicHelpers

Side = Literal["pred", "sol"]
Rows = list[tuple[Any, ...]]


class SqlList(list[str]):
    """The statements of one side. `relaxed` says what a test's clean-up wants to be forgiven: distinct, round."""

    def __init__(self, statements: Iterable[str], side: Side, relaxed: frozenset[str] = frozenset()) -> None:
        super().__init__(statements)
        self.side, self.relaxed = side, relaxed


class StrictHelpers(PublicHelpers):
    """`runs[side]` gives the recorded rows of a side, for True without ROUND in the output columns."""

    def __init__(
        self,
        connection: Connection,
        statements: Mapping[Side, Sequence[str]],
        runs: Mapping[Side, Callable[[bool], Rows]],
    ) -> None:
        super().__init__(connection)
        self.statements, self.runs = statements, runs

    def namespace(self, pred_query_result: Any) -> dict[str, Any]:
        return {
            **super().namespace(pred_query_result),
            "check_sql_function_usage": check_sql_function_usage,
            "remove_distinct": remove_distinct,
            "remove_comments": remove_comments,
            "remove_round": remove_round,
        }

    def execute_queries(
        self,
        queries: str | Sequence[str],
        db_path: str,
        conn: Any,
        logger: Any = None,
        section_title: str = "",
        return_error: bool = False,
    ) -> Answer | tuple[Any, bool, bool, str]:
        side = self._side(queries)
        if side is None:
            return super().execute_queries(queries, db_path, conn, logger, section_title, return_error)
        rows = self._rows(queries, side)
        return (rows, False, False, "") if return_error else (rows, False, False)

    def ex_base(
        self,
        pred_sqls: Sequence[str],
        sol_sqls: Sequence[str],
        db_path: str,
        conn: Any,
        conditions: Mapping[str, Any] | None = None,
    ) -> int:
        if not pred_sqls or not sol_sqls:
            return 0
        predicted, *pred_failed = self.execute_queries(pred_sqls, db_path, conn)
        gold, *gold_failed = self.execute_queries(sol_sqls, db_path, conn)
        if any((*pred_failed, *gold_failed)) or predicted is None or gold is None:
            return 0
        wanted = conditions or {}
        forgiven = any("distinct" in getattr(sqls, "relaxed", ()) for sqls in (pred_sqls, sol_sqls))
        criteria = Criteria(
            ordered=bool(wanted.get("order", False)),
            as_set=forgiven and any(map(selects_distinct, (self._original(pred_sqls), self._original(sol_sqls)))),
            empty_matches=bool(wanted.get("empty_matches", False)),
        )
        left, right = ResultTable.from_rows(predicted), ResultTable.from_rows(gold)
        if not left.rows and not right.rows:
            return int(criteria.empty_matches)
        return int(mode_named("critic_strict").equal(left, right, criteria))

    def _side(self, queries: str | Sequence[str]) -> Side | None:
        """Which side a test asks for, also where it passes on a plain copy of the statements."""
        if isinstance(queries, SqlList):
            return queries.side
        asked = _plain([queries] if isinstance(queries, str) else queries)
        for side, statements in self.statements.items():
            if asked == _plain(statements):
                return side
        return None

    def _rows(self, queries: str | Sequence[str], side: Side) -> Rows:
        return self.runs[side](isinstance(queries, SqlList) and "round" in queries.relaxed)

    def _original(self, sqls: Sequence[str]) -> str:
        source = self.statements[sqls.side] if isinstance(sqls, SqlList) else sqls
        return source[-1] if source else ""


def _plain(statements: Iterable[str]) -> list[str]:
    return [statement.strip().rstrip(";").rstrip() for statement in statements]


def _edited(sqls: Sequence[str], edit: Callable[[str], str], relaxed: str = "") -> list[str]:
    statements = [edit(sql) for sql in sqls]
    if isinstance(sqls, SqlList):
        return SqlList(statements, sqls.side, sqls.relaxed | ({relaxed} if relaxed else set()))
    return statements


def remove_comments(sqls: Sequence[str]) -> list[str]:
    """Every comment becomes a blank; strings stay as they are."""
    return _edited(sqls, _without_comments)


def remove_distinct(sqls: Sequence[str]) -> list[str]:
    """DISTINCT goes where it is a keyword; IS DISTINCT FROM stays."""
    return _edited(sqls, without_distinct, "distinct")


def remove_round(sqls: Sequence[str]) -> list[str]:
    """ROUND goes in the output columns."""
    return _edited(sqls, without_output_rounds, "round")


def check_sql_function_usage(sqls: Sequence[str], required_keywords: Iterable[str]) -> int:
    """1 if the tokens of every keyword occur in the SQL, outside of comments and inside of strings only as strings."""
    return int(bool(sqls) and all(any(uses(sql, keyword) for sql in sqls) for keyword in required_keywords))


def _without_comments(sql: str) -> str:
    pieces, position = [], 0
    for token in tokens(sql):
        gap = sql[position : token.start]
        pieces += [gap if gap.isspace() or not gap else " ", sql[token.start : token.end]]
        position = token.end
    return "".join(pieces).strip()

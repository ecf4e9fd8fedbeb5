"""birdrl's declarative tests as the Python that public evaluators run.

What a result or a state is compared with is computed here and written into the test. A state on a perturbed database
has no public form, since there the prediction has run before a test can change anything: such tests are left out. SQL
features are looked for as words, as public tests do; the syntax tree of our own tests is stricter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from birdrl.errors import InputError
from birdrl.files import sha256_text
from birdrl.gym.instance import FeatureTest, Instance, PlanTest, PythonTest, ResultTest, StateTest, TestCase
from birdrl.rewards.gold import Gold, GoldStore, Reference

SHOWN_ROWS = 40  # a longer table is compared by its hash
# The word that stands for a feature; a feature without one is left out.
_WORDS = {
    "aggregate": ("COUNT(", "SUM(", "AVG(", "MIN(", "MAX("), "case": ("CASE ",), "coalesce": ("COALESCE(", "IFNULL("),
    "cte": ("WITH ",), "exists": ("EXISTS",), "group_by": ("GROUP BY",), "having": ("HAVING",), "join": ("JOIN",),
    "left_join": ("LEFT JOIN", "LEFT OUTER JOIN"), "limit": ("LIMIT",), "order_by": ("ORDER BY",),
    "union": ("UNION",), "window": (" OVER",),
}  # fmt: skip
_HEAD = "def test_case(pred_sqls, sol_sqls, db_path, conn, conditions=None):\n"


def with_python_tests(instance: Instance, gold: GoldStore) -> Instance:
    """The instance with its tests in Python. Raises InputError when none of them has a public form, GoldError."""
    reference = _gold(instance, gold)
    sources = [text for test in instance.test_cases if (text := _source(test, instance, reference))]
    if not sources and instance.test_cases:
        raise InputError(f"{instance.instance_id}: none of its tests can be written in Python; export it without")
    return instance.model_copy(update={"test_cases": [PythonTest(source=text) for text in sources]})


def _gold(instance: Instance, gold: GoldStore) -> Gold:
    probes = sorted({test.probe_sql for test in instance.test_cases if isinstance(test, StateTest)})
    return gold.get(
        Reference(
            instance.instance_id, instance.db_id, tuple(instance.sol_sql),
            preprocess_sql=tuple(instance.preprocess_sql), probes=tuple(probes),
        )
    )  # fmt: skip


def _source(test: TestCase, instance: Instance, gold: Gold) -> str:
    """One test as Python, empty where it has no public form."""
    if isinstance(test, PythonTest):
        return test.source
    if isinstance(test, ResultTest):
        return _result(test, instance, gold)
    if isinstance(test, StateTest):
        rows = gold.probes[test.probe_sql].rows
        read = f"    rows, failed, _ = execute_queries([{test.probe_sql!r}], db_path, conn)\n    assert not failed\n"
        return "" if test.setup_sql else _HEAD + read + _compared(rows, ordered=False)
    return _feature(test) if isinstance(test, FeatureTest) else _plan(test)


def _result(test: ResultTest, instance: Instance, gold: Gold) -> str:
    if len(instance.sol_sql) > 1 and gold.table is not None:  # running it again would find what it has made
        if test.setup_sql:
            return ""
        return _HEAD + "    rows = pred_query_result\n" + _compared(gold.table.rows, ordered=test.ordered)
    setup = f"    execute_queries({test.setup_sql!r}, db_path, conn)\n" if test.setup_sql else ""
    return (
        f"{_HEAD}{setup}    result = ex_base(pred_sqls, sol_sqls, db_path, conn, {{'order': {test.ordered}}})\n"
        '    assert result == 1, f"ex_base returned {result} but expected 1."\n    return result\n'
    )


def _compared(rows: Sequence[tuple[Any, ...]], *, ordered: bool) -> str:
    texts = [repr(tuple(row)) for row in rows]
    texts = texts if ordered else sorted(texts)
    found = "[repr(tuple(row)) for row in rows]"
    found = found if ordered else f"sorted({found})"
    if len(texts) <= SHOWN_ROWS:
        return f"    assert {found} == {texts!r}\n"
    return (
        f"    import hashlib\n    found = {found}\n    assert len(found) == {len(texts)}\n"
        f"    assert hashlib.sha256('\\n'.join(found).encode()).hexdigest() == {sha256_text(chr(10).join(texts))!r}\n"
    )


def _feature(test: FeatureTest) -> str:
    lines = ["    text = ' '.join(' '.join(pred_sqls).upper().split())\n"]
    for name in test.required:
        if name in _WORDS:
            lines.append(f"    assert any(word in text for word in {_WORDS[name]!r}), 'without {name}'\n")
    for name in test.forbidden:
        if name == "subquery":
            lines.append("    assert text.count('SELECT') < 2, 'with subquery'\n")
        elif name in _WORDS:
            lines.append(f"    assert not any(word in text for word in {_WORDS[name]!r}), 'with {name}'\n")
    return _HEAD + "".join(lines) if len(lines) > 1 else ""


def _plan(test: PlanTest) -> str:
    query = repr(test.query_sql) if test.query_sql else "pred_sqls[-1]"
    wanted = repr(test.index) if test.index else "'INDEX'"
    return "" if test.setup_sql else (
        f"{_HEAD}    plan = conn.execute('EXPLAIN QUERY PLAN ' + {query}).fetchall()\n"
        f"    assert any({wanted} in str(row[3]) for row in plan), 'the plan does not use it'\n"
    )  # fmt: skip

"""Code of a test case can do nothing but judge; the prediction runs once; no test sees another's traces."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from birdrl.errors import InfraError
from birdrl.files import sha256_file
from birdrl.testcases import DEFAULT_TEST, SandboxConfig, SandboxReport, TestSandbox

SCRIPT = "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c REAL); INSERT INTO t VALUES (1, 'x', 1.25), (2, 'y', 2.5)"
HEAD = "def test_case(pred_sqls, sol_sqls, db_path, conn, conditions=None):\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sandbox") / "t.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(SCRIPT)
    connection.close()
    return path


@pytest.fixture(scope="module")
def sandbox() -> Iterator[TestSandbox]:
    config = SandboxConfig(statement_timeout_s=0.5, script_timeout_s=1.0, test_timeout_s=0.7, memory_mb=256)
    with TestSandbox(config) as sandbox:
        yield sandbox


def test_body(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


test_body.__test__ = False  # type: ignore[attr-defined]
GOLD = ["SELECT c FROM t"]
GOLD_ROWS = ([(1.25,), (2.5,)], [(1.25,), (2.5,)])


def strict(sandbox: TestSandbox, template: Path, pred: list[str], *tests: str, **more: Any) -> SandboxReport:
    values = {"before": [], "sol": GOLD, "gold": GOLD_ROWS, "conditions": {}} | more
    return sandbox.strict(template, pred=pred, tests=tests, **values)


def compat(sandbox: TestSandbox, template: Path, pred: list[str], *tests: str, **more: Any) -> SandboxReport:
    values = {"before": [], "sol": GOLD, "conditions": {}} | more
    return sandbox.compat(template, pred=pred, tests=tests, **values)


def everywhere(*made: str) -> list[str]:
    """Write `data` to every descriptor that the test can reach."""
    return [
        "import os, marshal, json, struct", *made,
        "for fd in range(3, 64):",
        "    try: os.write(fd, data)",
        "    except OSError: pass",
        "assert False",
    ]  # fmt: skip


ATTEMPTS = {
    "forge all verdicts": everywhere(
        "body = json.dumps(['tests', [[True, '']] * 3]).encode()", "data = struct.pack('<Q', len(body)) + body"
    ),
    "forge all verdicts of an evaluation": everywhere(
        "body = json.dumps(['ran', 'ok', '', [[1, 'x', []]] * 3]).encode()",
        "data = struct.pack('<Q', len(body)) + body",
    ),
    "send a value that is no message": everywhere("data = struct.pack('<Q', 1) + b'1'"),
    "send what nothing can read": everywhere(
        "body = marshal.dumps(('tests', [(True, '')] * 3))", "data = struct.pack('<Q', len(body)) + body"
    ),
    "announce a huge message": everywhere("data = struct.pack('<Q', 1 << 60) + b'x' * 100_000"),
    "close everything": ["import os", "os.closerange(0, 64)", "assert False"],
    "raise what cannot be told": [
        "class Silent(Exception):", "    def __str__(self): raise RuntimeError", "raise Silent",
    ],
    "write a file": ["open('/tmp/birdrl-stolen', 'w')"],
    "append to a file": ["import os", "os.open('/tmp/birdrl-stolen', os.O_RDWR | os.O_CREAT)"],
    "remove a file": ["import os", "os.unlink('/tmp/birdrl-stolen')"],
    "make a folder": ["import os", "os.mkdir('/tmp/birdrl-stolen')"],
    "open a socket": ["import socket", "socket.create_connection(('127.0.0.1', 80))"],
    "start a program": ["import subprocess", "subprocess.run(['true'])"],
    "fork": ["import os", "os.fork()"],
    "start a thread": ["import threading", "threading.Thread(target=print).start()"],
    "signal its parent": ["import os, signal", "os.kill(os.getppid(), signal.SIGKILL)"],
    "signal anybody": ["import os, signal", "os.kill(-1, signal.SIGKILL)"],
    "lift its limits": ["import resource", "resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))"],
    "trace its parent": [
        "import ctypes, os",
        "assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
    ],
    "write into its parent": ["import os", "open(f'/proc/{os.getppid()}/mem', 'r+b')"],
    "open another database": ["import sqlite3", "sqlite3.connect('/tmp/birdrl-stolen')"],
    "attach another database": ["conn.execute(\"ATTACH '/tmp/birdrl-stolen' AS s\")"],
    "export the database": ["conn.execute(\"VACUUM INTO '/tmp/birdrl-stolen'\")"],
    "take 2 GB": ["x = bytearray(2 << 30)"],
    "never end": ["while True: pass"],
    "sleep": ["import time", "time.sleep(60)"],
    "recurse": ["def f(): f()", "f()"],
    "exit": ["import sys", "sys.exit(0)"],
    "leave the process": ["import os", "os._exit(0)"],
    "break what runs it": ["import builtins", "builtins.len = None"],
    "crash": ["import ctypes", "ctypes.string_at(0)"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("run", "attempt"),
    # What never ends takes compat to the limit of a whole evaluation: once is enough.
    [(strict, name) for name in ATTEMPTS] + [(compat, name) for name in ATTEMPTS if name != "sleep"],
)
def test_an_attempt_fails_and_costs_only_its_own_verdict(
    run: Any, attempt: str, sandbox: TestSandbox, template: Path
) -> None:
    before = sha256_file(template)
    good = test_body("assert conn.execute('SELECT count(*) FROM t').fetchone() == (2,)")
    report = run(sandbox, template, GOLD, good, test_body(*ATTEMPTS[attempt]), good)
    if run is strict:
        assert report.status == "ok"
        assert [passed for passed, _ in report.tests] == [True, False, True]
    else:  # one process for all tests, as published: what ends it ends the evaluation
        assert report.status == "killed" or [passed for passed, _ in report.tests] == [True, False, True]
    assert not Path("/tmp/birdrl-stolen").exists()
    assert sha256_file(template) == before


def test_a_test_may_use_the_standard_library_and_read(sandbox: TestSandbox, template: Path) -> None:
    useful = test_body(
        "import collections, decimal, json, re, statistics, tempfile",
        "assert json.loads('[1]') == [1] and re.match('a', 'ab') and statistics.mean([1, 3]) == 2",
        "print('x' * 10_000_000)",
        "import sys; sys.stderr.write('noise')",
        "import sqlite3",
        "assert isinstance(conn, sqlite3.Connection)",
        "assert sqlite3.connect(db_path).execute('SELECT count(*) FROM t').fetchone() == (2,)",
        "assert sqlite3.connect(':memory:').execute('SELECT 1').fetchone() == (1,)",
        "assert date(2024, 1, 2).year == 2024",
    )
    assert strict(sandbox, template, GOLD, useful).tests == ((True, ""),)
    assert compat(sandbox, template, GOLD, useful).tests == ((True, ""),)


def test_a_body_that_never_runs_judges_nothing(sandbox: TestSandbox, template: Path) -> None:
    wrong = test_body("assert False")
    for source in (test_body("yield", "assert False"), "async " + wrong):
        [(passed, reason)] = strict(sandbox, template, GOLD, source).tests
        assert (passed, "generator or a coroutine" in reason) == (False, True)
        assert compat(sandbox, template, GOLD, source).tests == ((True, ""),)  # as published


def test_every_test_sees_the_same_state(sandbox: TestSandbox, template: Path) -> None:
    meddling = test_body(
        "assert conn.execute('SELECT b FROM t ORDER BY a').fetchall() == [('x',), ('z',)]",
        "conn.execute('DELETE FROM t')", "conn.commit()",
        "conn.execute('CREATE TABLE trace (a)')",
        "pred_sqls.clear(); sol_sqls.clear()",
        "import json; json.dumps = None",
        "globals()['ex_base'] = lambda *a: 1",
    )  # fmt: skip
    update = ["UPDATE t SET b = 'z' WHERE a = 2"]
    report = strict(sandbox, template, update, meddling, meddling, meddling)
    assert report.tests == ((True, ""),) * 3
    published = compat(sandbox, template, update, meddling, meddling)
    assert [passed for passed, _ in published.tests] == [True, False]


def test_the_prediction_runs_once(sandbox: TestSandbox, template: Path) -> None:
    asks = test_body(
        "for _ in range(3):",
        "    execute_queries(pred_sqls, db_path, conn)",
        "    execute_queries(list(pred_sqls), db_path, conn)",
        "    execute_queries(pred_sqls[0] + ' ;', db_path, conn)",
        "rows, error, timeout = execute_queries('SELECT c FROM t WHERE a = 1', db_path, conn)",
        "assert (rows, error, timeout) == ([(2.25,)], False, False), rows",
    )
    grow = ["UPDATE t SET c = c + 1 WHERE a = 1"]
    assert strict(sandbox, template, grow, asks).tests == ((True, ""),)
    assert not compat(sandbox, template, grow, asks).tests[0][0]


def test_neither_side_touches_the_other(sandbox: TestSandbox, template: Path) -> None:
    compare = test_body("assert ex_base(pred_sqls, sol_sqls, db_path, conn) == 1")
    for attack in (
        ["DELETE FROM t", "SELECT c FROM t"],
        ["CREATE TEMP TABLE IF NOT EXISTS t (c)", "SELECT c FROM t"],
        ["UPDATE t SET c = 0", "SELECT 0"],
    ):
        assert not strict(sandbox, template, attack, compare).tests[0][0]
    fair = ["SELECT c FROM t WHERE a > 0"]
    assert strict(sandbox, template, fair, compare).tests == ((True, ""),)


@pytest.mark.parametrize(
    ("pred", "sol", "gold", "conditions", "expected"),
    [
        ("SELECT ROUND(c, 1) FROM t", "SELECT c FROM t", GOLD_ROWS, {}, (True, True)),
        ("SELECT c FROM t", "SELECT ROUND(c, 1) FROM t", ([(1.3,), (2.5,)], [(1.25,), (2.5,)]), {}, (True, True)),
        ("SELECT c FROM t UNION ALL SELECT c FROM t", "SELECT DISTINCT c FROM t", GOLD_ROWS, {}, (True, True)),
        ("SELECT c FROM t UNION ALL SELECT c FROM t", "SELECT c FROM t", GOLD_ROWS, {}, (False, True)),
        ("SELECT c FROM t ORDER BY c DESC", "SELECT c FROM t ORDER BY c", GOLD_ROWS, {}, (True, True)),
        ("SELECT c FROM t ORDER BY c DESC", "SELECT c FROM t ORDER BY c", GOLD_ROWS, {"order": True}, (False, False)),
        ("SELECT c + 0.001 FROM t", "SELECT c FROM t", GOLD_ROWS, {}, (False, True)),
        ("SELECT c FROM t WHERE 0", "SELECT c FROM t WHERE 0", ([], []), {}, (False, False)),
        ("SELECT c FROM t WHERE 0", "SELECT c FROM t WHERE 0", ([], []), {"empty_matches": True}, (True, False)),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT b IS NULL FROM t)", "SELECT 1", ([(1,)], [(1,)]), {}, (True, False)),
        ("SELECT 0.004", "SELECT 0.0", ([(0.0,)], [(0.0,)]), {}, (False, True)),
        ("UPDATE t SET c = 1", "UPDATE t SET c = 1", ([], []), {}, (False, False)),
        ("SELECT '2024-01-02 03:04'", "SELECT '2024-01-02'", ([("2024-01-02",)],) * 2, {}, (False, False)),
    ],
)  # fmt: skip
def test_the_default_test_case(
    pred: str, sol: str, gold: Any, conditions: Any, expected: tuple[bool, bool], sandbox: TestSandbox, template: Path
) -> None:
    ours = strict(sandbox, template, [pred], DEFAULT_TEST, sol=[sol], gold=gold, conditions=conditions)
    published = compat(sandbox, template, [pred], DEFAULT_TEST, sol=[sol], conditions=conditions)
    assert (ours.tests[0][0], published.tests[0][0]) == expected, (ours, published)


def test_helpers_in_strict_read_the_syntax(sandbox: TestSandbox, template: Path) -> None:
    checks = test_body(
        "assert check_sql_function_usage(['SELECT SUM(a) -- avg'], ['sum']) == 1",
        "assert check_sql_function_usage(['SELECT summary -- avg'], ['sum']) == 0",
        "assert check_sql_function_usage(['SELECT summary -- avg'], ['avg']) == 0",
        "assert check_sql_function_usage([], []) == 0",
        "assert remove_comments([\"SELECT 'a--b' -- c\\nFROM t\"]) == [\"SELECT 'a--b' FROM t\"]",
        "assert remove_distinct(['SELECT\\nDISTINCT(a)']) == ['SELECT\\n(a)']",
        "assert remove_round(['SELECT ROUND(a, 1), BACKGROUND(b)']) == ['SELECT (a), BACKGROUND(b)']",
        "assert preprocess_results([(1.239, 'a')]) == [(1.24, 'a')]",
        "assert pred_query_result == [(1.25,), (2.5,)]",
    )
    assert strict(sandbox, template, GOLD, checks).tests == ((True, ""),)


@pytest.mark.parametrize("run", [strict, compat])
def test_helpers_on_statements_of_the_tests_own(run: Any, sandbox: TestSandbox, template: Path) -> None:
    checks = test_body(
        "assert ex_base(['selec'], sol_sqls, db_path, conn) == ex_base(pred_sqls, ['selec'], db_path, conn) == 0",
        "assert execute_queries(['SELECT 1', 'selec'], db_path, conn) == ([(1,)], True, False)",
        "rows, conn = perform_query_on_sqlite_databases('SELECT 7', db_path, conn)",
        "assert rows == [(7,)] and ex_base(pred_sqls, sol_sqls, db_path, conn) == 1",
    )
    assert run(sandbox, template, GOLD, checks).tests == ((True, ""),)


def test_compat_does_not_see_what_comes_after_10000_rows(sandbox: TestSandbox, template: Path) -> None:
    rows = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 10001) SELECT {} FROM r"
    for first_wrong, passes in ((10_001, True), (10_000, False)):
        pred = rows.format(f"CASE WHEN i >= {first_wrong} THEN 0 ELSE i END")
        report = compat(sandbox, template, [pred], DEFAULT_TEST, sol=[rows.format("i")])
        assert [passed for passed, _ in report.tests] == [passes], report


def test_what_compat_reproduces(sandbox: TestSandbox, template: Path) -> None:
    """Names beside test_case are not seen inside it, conditions go to whoever takes them, one statement a text."""
    beside = "import math\n" + test_body("math.sqrt(4)")
    assert [t[0] for t in compat(sandbox, template, GOLD, beside).tests] == [False]
    assert [t[0] for t in strict(sandbox, template, GOLD, beside).tests] == [True]
    with_conditions = "def test_case(a, b, c, d, conditions): assert conditions == {'order': True}"
    without = "def test_case(a, b, c, d): pass"
    any_keyword = "def test_case(a, b, c, d, **kw): assert kw"
    for run in (strict, compat):
        report = run(sandbox, template, GOLD, with_conditions, without, any_keyword, conditions={"order": True})
        assert [passed for passed, _ in report.tests] == [True, True, True]
    assert compat(sandbox, template, ["SELECT 1; SELECT 2"], without).status == "error"
    assert strict(sandbox, template, ["SELECT 1; SELECT 2"], without).status == "ok"


@pytest.mark.parametrize("run", [strict, compat])
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (test_body("assert 1 == 2, 'one is not two'"), "AssertionError (line 2): one is not two"),
        (test_body("raise ValueError('no')"), "ValueError (line 2): no"),
        ("def test_case(:", "SyntaxError"),
        ("x = 1", "KeyError"),
        (test_body("conn.execute('SELECT absent')"), "OperationalError (line 2): no such column: absent"),
    ],
)
def test_reasons(source: str, reason: str, run: Any, sandbox: TestSandbox, template: Path) -> None:
    [(passed, told)] = run(sandbox, template, GOLD, source).tests
    assert not passed
    assert told.startswith(reason)


@pytest.mark.parametrize(
    ("pred", "status"),
    [
        (["selec"], "error"),
        (["ATTACH '/tmp/x' AS x"], "denied"),
        (["WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"], "timeout"),
        (["SELECT instr(hex(zeroblob(499000)), hex(zeroblob(240000)) || '1')"], "killed"),
        (["-- nothing"], "empty"),
    ],
)
def test_a_prediction_that_does_not_run(pred: list[str], status: str, sandbox: TestSandbox, template: Path) -> None:
    report = strict(sandbox, template, pred, DEFAULT_TEST)
    assert (report.status, report.tests) == (status, ())
    assert strict(sandbox, template, GOLD, DEFAULT_TEST).tests == ((True, ""),)


def test_preprocessing(sandbox: TestSandbox, template: Path) -> None:
    before = ["CREATE TABLE u (a REFERENCES t(a))", "PRAGMA foreign_keys = ON"]
    refuses = test_body(
        "import sqlite3",
        "try: conn.execute('INSERT INTO u VALUES (9)')",
        "except sqlite3.IntegrityError: return",
        "assert False, 'accepted'",
    )
    for run in (strict, compat):
        assert run(sandbox, template, GOLD, refuses, before=before).tests == ((True, ""),)
    report = strict(sandbox, template, GOLD, refuses, before=["DROP TABLE absent"])
    assert report.status == "setup"
    assert "no such table: absent" in report.message


def test_many_threads_share_the_processes(template: Path) -> None:
    with TestSandbox(SandboxConfig(processes=2)) as sandbox, ThreadPoolExecutor(6) as threads:
        reports = list(threads.map(lambda _: strict(sandbox, template, GOLD, DEFAULT_TEST), range(30)))
        assert all(report.tests == ((True, ""),) for report in reports)
        assert len(sandbox._servers) <= 2


def test_a_dead_process_is_an_infra_error_and_is_replaced(template: Path) -> None:
    with TestSandbox() as sandbox:
        assert strict(sandbox, template, GOLD, DEFAULT_TEST).status == "ok"
        [server] = sandbox._servers
        server._popen.kill()
        server._popen.wait()
        with pytest.raises(InfraError, match="sandbox process"):
            strict(sandbox, template, GOLD, DEFAULT_TEST)
        assert strict(sandbox, template, GOLD, DEFAULT_TEST).status == "ok"
    with pytest.raises(InfraError, match="closed"):
        strict(TestSandboxClosed(), template, GOLD, DEFAULT_TEST)


def TestSandboxClosed() -> TestSandbox:
    sandbox = TestSandbox()
    sandbox.close()
    return sandbox


def test_processes_end_with_their_owner(template: Path) -> None:
    sandbox = TestSandbox()
    strict(sandbox, template, GOLD, DEFAULT_TEST)
    [server] = sandbox._servers
    pid = server._popen.pid
    server._socket.close()  # what the kernel does when the owner dies
    deadline = time.monotonic() + 10
    while server._popen.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server._popen.poll() is not None
    assert not os.path.exists(f"/proc/{pid}/fd/0")

"""The command `birdrl sql`: what it prints, its exit status, and that the file stays as it is."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from databases import build_database

from birdrl.cli import main
from birdrl.files import sha256_file

FIELDS = ["status", "columns", "rows", "truncated", "dirty", "elapsed_s", "message"]
PROGRAM = [sys.executable, "-c", "import sys; from birdrl.cli import main; sys.exit(main())", "sql", "--database"]
BOMB = "SELECT instr(hex(zeroblob(499000)), hex(zeroblob(240000)) || '1')"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return build_database(tmp_path / "shop.sqlite")


@pytest.fixture
def sql(shop: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs the command in this process; checks that the file and its folder are left alone."""

    def run(*words: str, database: Path = shop) -> tuple[int, str]:
        before = [(path.name, sha256_file(path), path.stat().st_mtime_ns) for path in shop.parent.iterdir()]
        status = main(["sql", "--database", str(database), *words])
        assert [(path.name, sha256_file(path), path.stat().st_mtime_ns) for path in shop.parent.iterdir()] == before
        return status, capsys.readouterr().out

    return run


def objects(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(list(one) == FIELDS for one in found)
    return found


def test_statements_share_one_session_and_print_observations(sql: Callable[..., tuple[int, str]]) -> None:
    status, shown = sql(
        "DELETE FROM sale WHERE id > 1; CREATE TEMP TABLE t (a)", "SELECT count(*) AS n FROM sale, item"
    )
    assert (status, shown) == (0, "OK (2 rows changed)\nOK\nn\n4\n")
    assert sql("SELECT name FROM item ORDER BY id", "--rows", "2") == (0, "name\nbolt\nnut\n(2 more rows)\n")
    assert len(sql("SELECT * FROM item, sale", "--rows", "12", "--bytes", "100")[1]) <= 101


def test_a_failed_statement_is_status_1_and_the_next_ones_run(sql: Callable[..., tuple[int, str]]) -> None:
    status, shown = sql("SELECT nope FROM item; ATTACH 'x' AS y; SELECT 1 AS a")
    assert status == 1
    assert shown.splitlines()[0] == "Error: no such column: nope"
    assert shown.splitlines()[2:] == ["a", "1"]


def test_json_has_one_object_a_statement_with_exactly_these_fields(sql: Callable[..., tuple[int, str]]) -> None:
    status, shown = sql(
        "--json",
        "SELECT id, price FROM item WHERE id > 2; DELETE FROM sale; SELECT nope; DETACH main",
        "SELECT x'00ff', 9e999, -9e999, CAST(x'ff' AS TEXT), 'a' || char(10), 9223372036854775807 -- end",
    )
    assert status == 1
    select, delete, error, denied, values = objects(shown)
    assert (select["status"], select["columns"], select["rows"]) == ("ok", ["id", "price"], [[3, 19.9], [4, None]])
    assert (select["truncated"], select["dirty"], select["message"]) == (False, False, "")
    assert 0 <= select["elapsed_s"] < 2
    assert (delete["status"], delete["columns"], delete["rows"], delete["dirty"]) == ("ok", [], [], True)
    assert (error["status"], error["message"]) == ("error", "no such column: nope")
    assert (denied["status"], denied["message"]) == ("denied", "DETACH is not allowed")
    assert values["rows"] == [
        [{"blob": "00ff"}, {"real": "Infinity"}, {"real": "-Infinity"}, "\ufffd", "a\n", 2**63 - 1]
    ]


def test_long_results_are_truncated_and_say_so(sql: Callable[..., tuple[int, str]]) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) SELECT i FROM n"
    (found,) = objects(sql("--json", numbers)[1])
    assert (found["truncated"], len(found["rows"])) == (True, 10_000)


def test_time_limits_end_as_timeout_or_as_killed_and_every_statement_has_its_object(
    sql: Callable[..., tuple[int, str]],
) -> None:
    endless = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
    start = time.monotonic()
    status, shown = sql("--json", "--timeout", "0.3", f"{endless}; SELECT 1; {BOMB}; SELECT 1")
    assert time.monotonic() - start < 10
    assert [one["status"] for one in objects(shown)] == ["timeout", "ok", "killed", "killed"]
    assert status == 1
    assert "session is lost" in objects(shown)[3]["message"]


@pytest.mark.parametrize(
    "words", ["--timeout 0", "--timeout nan", "--timeout x", "--rows 0", "--rows x", "--bytes 79", "--bytes -1"]
)
def test_wrong_limits_are_wrong_use(shop: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["sql", "--database", str(shop), "SELECT 1", *words.split()])
    assert stop.value.code == 2
    assert re.search(r"argument --\w+: '.*': (more than 0|a whole number, at least)", capsys.readouterr().err)


def write_wal(path: Path) -> Callable[[], None]:
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    return connection.close


def write_locked(path: Path) -> Callable[[], None]:
    build_database(path).chmod(0o644)
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); print(1, flush=True)"
    command = [sys.executable, "-c", f"{code}; input()", str(path)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()

    def end() -> None:
        writer.communicate(b"\n")

    return end


def write_crashed(path: Path) -> Callable[[], None]:
    """A writer that was killed after its first pages had reached the file."""
    build_database(path).chmod(0o644)
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN')\n"
        "c.executemany('INSERT INTO sale VALUES (?, 1, ?, 1)', [(i, 'x' * 900) for i in range(100, 400)]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert path.with_name(path.name + "-journal").stat().st_size > 0
    return lambda: None


def write(content: bytes) -> Callable[[Path], Callable[[], None]]:
    def make(path: Path) -> Callable[[], None]:
        path.write_bytes(content)
        return lambda: None

    return make


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: lambda: None, "no such file"),
        (lambda path: path.mkdir() or (lambda: None), "is not a file"),
        (write(b""), "is empty"),
        (write(b"id,name\n1,x\n" * 100), "is not an SQLite database"),
        (write(b"SQLite format 3\0" + b"\xff" * 2000), "SQLite cannot read it"),
        (write_wal, "latest changes are still in file.sqlite-wal"),
        (write_locked, "locked, another program is writing"),
        (write_crashed, "left file.sqlite-journal"),
    ],
    ids=["missing", "folder", "empty", "text", "damaged", "wal", "locked", "crashed"],
)
def test_an_unusable_file_is_one_message_and_status_2(
    make: Callable[[Path], Callable[[], None]], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.sqlite"
    end = make(path)
    try:
        before = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in tmp_path.iterdir())
        assert main(["sql", "--database", str(path), "SELECT 1"]) == 2
        after = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in tmp_path.iterdir())
        assert after == before
    finally:
        end()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"birdrl sql: {path}: ")
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_a_database_at_rest_in_wal_mode_is_used_like_any_other(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "file.sqlite"
    write_wal(path)()
    assert main(["sql", "--database", str(path), "SELECT a FROM t"]) == 0
    assert capsys.readouterr().out == "a\n1\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.sqlite"]


def test_others_cannot_write_meanwhile(shop: Path) -> None:
    shop.chmod(0o644)
    process = subprocess.Popen(
        [*PROGRAM, str(shop), "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("SELECT 1;\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["rows"] == [[1]]  # an answer before the input has ended
    writer = sqlite3.connect(shop, timeout=0, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        writer.execute("DELETE FROM item")
    writer.close()
    rest, _ = process.communicate("SELECT count(*) FROM item")
    assert json.loads(rest)["rows"] == [[4]]
    assert process.returncode == 0


def run_program(shop: Path, given: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, str(shop), *words], input=given, capture_output=True, timeout=120)


def test_statements_come_from_standard_input_as_any_bytes(shop: Path) -> None:
    given = (
        b"\xef\xbb\xbfCREATE TRIGGER t AFTER DELETE ON sale BEGIN DELETE FROM item; SELECT 1; END;\n"
        b"DELETE FROM sale; -- ;\nSELECT count(*), ';' FROM item;\nSELECT '\xff';\nSELECT '\0';\n"
        b"SELECT 'open; SELECT 2"
    )
    done = run_program(shop, given, "--json")
    found = objects(done.stdout.decode())
    assert [one["status"] for one in found] == ["ok", "ok", "ok", "error", "error", "error"]
    assert found[2]["rows"] == [[0, ";"]]
    assert [one["message"] for one in found[3:5]] == [
        "SQL text that is not valid Unicode",
        "null character in the SQL text",
    ]
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_file_whose_header_claims_wal_for_reading_alone_is_left_as_it_is(shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "mixed.sqlite"
    content = bytearray(shop.read_bytes())
    content[18:20] = b"\1\2"
    path.write_bytes(content)
    done = run_program(path, b"DELETE FROM item; SELECT count(*) FROM item", "--json")
    assert [one["rows"] for one in objects(done.stdout.decode())] == [[], [[0]]]
    assert path.read_bytes() == content
    assert {entry.name for entry in tmp_path.iterdir()} == {"mixed.sqlite", "shop.sqlite"}


def test_output_that_finds_no_room_and_input_that_is_closed_are_one_message(shop: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, str(shop), "SELECT 1"], stdout=full, stderr=subprocess.PIPE, timeout=120)
    assert (done.returncode, done.stderr) == (1, b"birdrl sql: standard output: no space left on device\n")
    words = ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, str(shop)]
    done = subprocess.run(words, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"birdrl sql: no SQL statement found")


def test_no_statement_is_wrong_use(shop: Path) -> None:
    done = run_program(shop, b" -- nothing\n;;")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"birdrl sql: no SQL statement found; give one as an argument or on standard input\n"


def test_an_interrupted_command_leaves_no_process(shop: Path) -> None:
    process = subprocess.Popen([*PROGRAM, str(shop), "--timeout", "60", BOMB], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    workers: list[str] = []
    while not workers and time.monotonic() < deadline:
        workers = [
            word for path in Path(f"/proc/{process.pid}/task").glob("*/children") for word in path.read_text().split()
        ]
        time.sleep(0.05)
    assert workers
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (1, "birdrl sql: interrupted\n")
    assert not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers)

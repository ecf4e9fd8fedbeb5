"""Random statements over one schema: nearly every way in which SQL changes a database, many of them wrong."""

from __future__ import annotations

import random

SCHEMA = """
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE, c INT CHECK (c < 900), d AS (c * 2));
CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT NOT NULL);
CREATE TABLE flat (k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE parent (id INTEGER PRIMARY KEY, n TEXT);
CREATE TABLE child (id INTEGER PRIMARY KEY, p INT REFERENCES parent DEFERRABLE INITIALLY DEFERRED, q INT
  REFERENCES parent ON DELETE CASCADE ON UPDATE SET NULL);
CREATE TABLE log (n INTEGER PRIMARY KEY, what TEXT);
CREATE INDEX t_c ON t (c DESC) WHERE c IS NOT NULL;
CREATE INDEX t_lower ON t (lower(b));
CREATE VIEW v AS SELECT a, b FROM t WHERE c > 10;
CREATE TRIGGER v_insert INSTEAD OF INSERT ON v BEGIN INSERT INTO t (a, b, c) VALUES (new.a, new.b, 11); END;
CREATE TRIGGER flat_delete AFTER DELETE ON flat BEGIN INSERT INTO log (what) VALUES ('gone ' || old.k); END;
CREATE TRIGGER parent_update BEFORE UPDATE ON parent WHEN new.n = 'no' BEGIN SELECT RAISE(ABORT, 'not allowed'); END;
"""
ROWS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60)
  INSERT INTO t (a, b, c) SELECT i, 'b' || hex(zeroblob(i * 9)), i FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 30) INSERT INTO parent SELECT i, 'p' || i FROM n;
INSERT INTO child SELECT id, id, id FROM parent WHERE id < 20;
INSERT INTO flat SELECT 'k' || a, zeroblob(a) FROM t;
INSERT INTO auto (v) SELECT b FROM t;
"""
_CONFLICTS = ["", "OR ROLLBACK", "OR ABORT", "OR FAIL", "OR IGNORE", "OR REPLACE"]


def random_script(rng: random.Random, length: int) -> list[str]:
    """One session's statements: a cache of its own size first, then anything."""
    start = [f"PRAGMA cache_size = {rng.choice([1, 2, 5, 20, 200])}", f"PRAGMA temp_store = {rng.randrange(3)}"]
    start += ["PRAGMA foreign_keys = ON"] if rng.random() < 0.6 else []
    start += ["PRAGMA recursive_triggers = ON"] if rng.random() < 0.3 else []
    weights = [weight for weight, _ in _FAMILIES]
    families = [family for _, family in _FAMILIES]
    return start + [family(rng) for family in rng.choices(families, weights, k=length - len(start))]


def random_lease(rng: random.Random, length: int) -> list[str]:
    """One lease's statements: half of the leases change rows only, a quarter the schema as well, a quarter anything."""
    kinds = [(_insert, _update, _delete, _transaction, _read)] * 2 + [(_insert, _main_schema_change, _transaction)]
    families = rng.choice([*kinds, tuple(family for _, family in _FAMILIES)])
    return [rng.choice(families)(rng) for _ in range(length)]


def _main_schema_change(rng: random.Random) -> str:
    n = rng.randrange(4)
    return rng.choice(
        [
            f"CREATE TABLE u{n} AS SELECT * FROM t",
            f"DROP TABLE {rng.choice(['t', 'log', 'u0', 'u1'])}",
            f"CREATE INDEX i{n} ON t (b)",
            "DROP INDEX t_c",
            "DROP TRIGGER flat_delete",
            "CREATE VIEW w AS SELECT count(*) AS n FROM t",
            "DROP VIEW v",
            "ALTER TABLE log ADD COLUMN extra",
        ]
    )


def _text(rng: random.Random) -> str:
    return rng.choice(
        ["'x'", f"'b{rng.randrange(80)}'", f"hex(zeroblob({rng.randrange(2500)}))", "NULL", "'é\U0001f600'"]
    )


def _numbers(rng: random.Random) -> str:
    rows = rng.randrange(1, 300)
    return f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) SELECT i FROM n)"


def _insert(rng: random.Random) -> str:
    n, conflict = rng.randrange(-3, 90), rng.choice(_CONFLICTS)
    return rng.choice(
        [
            f"INSERT {conflict} INTO t (a, b, c) VALUES ({n}, {_text(rng)}, {rng.randrange(1000)})",
            f"INSERT {conflict} INTO t (a, b) SELECT i, 'b' || (i % {rng.randrange(1, 90)}) FROM {_numbers(rng)}",
            f"INSERT INTO t (a, b) VALUES ({n}, {_text(rng)}) ON CONFLICT (a) DO UPDATE SET c = c + 1 RETURNING *",
            f"INSERT {conflict} INTO auto (v) VALUES ({_text(rng)}) RETURNING id",
            f"INSERT {conflict} INTO flat VALUES ('k{n}', {_text(rng)})",
            f"INSERT {conflict} INTO child VALUES ({n}, {rng.randrange(50)}, {rng.randrange(50)})",
            f"INSERT {conflict} INTO parent VALUES ({n}, {_text(rng)})",
            f"INSERT {conflict} INTO v VALUES ({n}, {_text(rng)})",
            f"INSERT INTO t (d) VALUES ({n})",
        ]
    )


def _update(rng: random.Random) -> str:
    n, conflict = rng.randrange(1, 60), rng.choice(_CONFLICTS)
    return rng.choice(
        [
            f"UPDATE {conflict} t SET b = b || 'y' WHERE a % {n} = 0",
            f"UPDATE {conflict} t SET a = a + {rng.randrange(3)}",
            f"UPDATE {conflict} t SET c = c * {rng.randrange(4)} WHERE c > {n}",
            f"UPDATE {conflict} parent SET n = {rng.choice(['n', _text(rng), repr('no')])} WHERE id = {n}",
            f"UPDATE {conflict} parent SET id = id + {rng.randrange(100)} WHERE id = {n}",
            f"UPDATE {conflict} flat SET k = 'k' || {n} WHERE length(v) = {n}",
            f"UPDATE {conflict} flat SET v = zeroblob({rng.randrange(9000)}) WHERE k > 'k{n}'",
            f"UPDATE t SET c = p.id FROM parent AS p WHERE p.id = t.a AND t.a < {n}",
        ]
    )


def _delete(rng: random.Random) -> str:
    n = rng.randrange(1, 60)
    return rng.choice(
        [
            f"DELETE FROM t WHERE a > {n}",
            f"DELETE FROM parent WHERE id = {n} RETURNING n",
            f"DELETE FROM flat WHERE k > 'k{n}'",
            "DELETE FROM auto WHERE id % 2",
            f"DELETE FROM child WHERE p < {n}",
            rng.choice(["DELETE FROM t", "DELETE FROM flat", "DELETE FROM log", "DELETE FROM sqlite_sequence"]),
        ]
    )


def _transaction(rng: random.Random) -> str:
    name = rng.choice(["s", "r"])
    return rng.choice(
        [
            "BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "COMMIT", "END", "ROLLBACK",
            f"SAVEPOINT {name}", f"SAVEPOINT {name}", f"ROLLBACK TO {name}", f"RELEASE {name}",
            "PRAGMA defer_foreign_keys = ON",
        ]
    )  # fmt: skip


def _schema_change(rng: random.Random) -> str:
    n = rng.randrange(4)
    return rng.choice(
        [
            f"CREATE TABLE u{n} AS SELECT * FROM {rng.choice(['t', 'flat', 'parent'])} LIMIT {rng.randrange(60)}",
            f"CREATE TABLE IF NOT EXISTS u{n} (x, y DEFAULT (1 + 2), CHECK (x <> 3))",
            f"DROP TABLE {rng.choice(['', 'IF EXISTS'])} u{n}",
            f"CREATE INDEX i{n} ON t (b, c)",
            f"CREATE UNIQUE INDEX i{n} ON u{n} (1)",
            f"DROP INDEX i{n}",
            "ALTER TABLE t ADD COLUMN e DEFAULT 5",
            "ALTER TABLE t DROP COLUMN e",
            f"ALTER TABLE u{n} RENAME TO u{(n + 1) % 4}",
            "ALTER TABLE parent RENAME COLUMN n TO name",
            "ALTER TABLE parent RENAME COLUMN name TO n",
            f"CREATE TRIGGER g{n} AFTER UPDATE ON t BEGIN INSERT INTO log (what) VALUES ('u' || new.a); END",
            f"DROP TRIGGER g{n}",
            f"CREATE VIEW w{n} AS SELECT count(*) AS n FROM u{n}",
            f"DROP VIEW w{n}",
            f"CREATE TEMP TABLE tmp{n} AS SELECT * FROM t",
            f"CREATE TEMP TRIGGER tg{n} AFTER INSERT ON main.t BEGIN DELETE FROM log WHERE n < 5; END",
            f"CREATE VIRTUAL TABLE f{n} USING fts5 (x)",
            f"INSERT INTO f{n} SELECT b FROM t",
            f"CREATE VIRTUAL TABLE r{n} USING rtree (id, x0, x1)",
            f"INSERT INTO r{n} SELECT a, a, a + 2 FROM t",
            f"DROP TABLE {rng.choice(['f', 'r'])}{n}",
        ]
    )


def _whole_file(rng: random.Random) -> str:
    return rng.choice(
        [
            "VACUUM", "VACUUM", "REINDEX", "ANALYZE", "PRAGMA optimize", "PRAGMA integrity_check",
            f"PRAGMA page_size = {rng.choice([512, 2048, 8192])}", f"PRAGMA auto_vacuum = {rng.randrange(3)}",
            f"PRAGMA incremental_vacuum({rng.randrange(1, 9)})", f"PRAGMA user_version = {rng.randrange(99)}",
            f"PRAGMA cache_size = {rng.choice([1, 3, 10])}", "PRAGMA application_id = 7", "PRAGMA foreign_key_check",
        ]
    )  # fmt: skip


def _read(rng: random.Random) -> str:
    n = rng.randrange(60)
    return rng.choice(
        [
            f"SELECT * FROM t WHERE c > {n} ORDER BY b DESC LIMIT 5",
            "SELECT count(*), total(length(b)), max(c) FROM t",
            "SELECT * FROM v ORDER BY a",
            f"SELECT t.a, p.id FROM t JOIN parent p ON p.id = t.c AND t.a > {n}",
            "SELECT last_insert_rowid(), changes(), total_changes()",
            "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY name",
            f"SELECT b, row_number() OVER (ORDER BY a) FROM t WHERE a < {n}",
            f"SELECT * FROM u{n % 4} LIMIT 3",
            f"SELECT * FROM tmp{n % 4} ORDER BY 1 LIMIT 3",
            f"SELECT rowid FROM f{n % 4} WHERE x MATCH 'b1' LIMIT 3",
            f"SELECT * FROM r{n % 4} WHERE x0 > {n} ORDER BY id",
            "PRAGMA page_count",
            "PRAGMA freelist_count",
            "SELECT * FROM absent",
            "SELEC 1",
            "EXPLAIN QUERY PLAN DELETE FROM t WHERE c = 1",
        ]
    )


_FAMILIES = [
    (24, _insert), (14, _update), (8, _delete), (18, _transaction), (16, _schema_change), (5, _whole_file), (15, _read),
]  # fmt: skip

"""The small database that the tests of this folder work on."""

from __future__ import annotations

from pathlib import Path

import apsw

SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, stock INTEGER);
INSERT INTO item VALUES (1, 'bolt', 0.5, 100), (2, 'nut', 0.25, 0), (3, 'saw', 19.9, 7), (4, 'tape', NULL, 7);
CREATE TABLE sale (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item, day TEXT, amount INTEGER);
INSERT INTO sale VALUES (1, 1, '2024-01-03', 10), (2, 1, '2024-02-01', 5), (3, 3, '2024-02-02', 1);
CREATE INDEX sale_item ON sale (item_id);
"""


def build_database(path: Path, script: str = SCHEMA) -> Path:
    connection = apsw.Connection(str(path))
    connection.execute(script).fetchall()
    connection.close()
    path.chmod(0o444)
    return path

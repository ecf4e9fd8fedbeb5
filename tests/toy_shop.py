"""A small real database in a template store, and issues about it: the common ground of several test folders."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from birdrl.gym.instance import Instance
from birdrl.gym.introspect import read_schema
from birdrl.gym.templates import TemplateStore, TemplateWriter, open_template

SCRIPT = """
CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers(id), price REAL);
INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cem');
INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, 2, 20), (5, 3, 5);
"""


def issue(instance_id: str, issue_sql: list[str], sol_sql: list[str], **more: object) -> Instance:
    values: dict[str, object] = {
        "instance_id": instance_id,
        "db_id": "shop",
        "category": "query",
        "query": "I want the orders of at least 20 euros.",
        "issue_sql": issue_sql,
        "sol_sql": sol_sql,
        "test_cases": [{"kind": "result"}],
        "bug": {"kind": "comparison_boundary", "family": "filtering", "cause": "The bound is left out.", "intent": "x"},
    }
    return Instance.model_validate(values | more)


BOUNDARY = issue("boundary", ["SELECT id FROM orders WHERE price > 20"], ["SELECT id FROM orders WHERE price >= 20"])
BROKEN = issue("broken", ["SELECT idd FROM orders"], ["SELECT id FROM orders"])
UPDATE = issue(
    "update",
    ["UPDATE orders SET price = price * 2"],
    ["UPDATE orders SET price = price * 2 WHERE customer_id = 1"],
    category="management",
    test_cases=[{"kind": "state", "probe_sql": "SELECT * FROM orders"}],
)
BAD_GOLD = issue("bad_gold", ["SELECT 1"], ["SELECT nope FROM orders"])


def build_store(folder: Path) -> TemplateStore:
    """The shop in a template store."""
    scratch = folder / "scratch.part"
    connection = sqlite3.connect(scratch)
    connection.executescript(SCRIPT)
    connection.close()
    writer = TemplateWriter(folder)
    writer.add("shop", scratch, read_schema(open_template(scratch), "shop"), "test")
    writer.finish()
    return TemplateStore(folder)

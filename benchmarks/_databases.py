"""A database of a wanted size, and what a trajectory does with it. The same bytes every time."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw

from birdrl.errors import InputError

_BYTES_PER_ORDER = 488  # of an order with its four items and its share of everything else, indexes included
_ITEMS = 4

_TABLES = """
CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, segment TEXT, created TEXT);
CREATE TABLE products(id INTEGER PRIMARY KEY, name TEXT, category TEXT, price REAL);
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers(id), day TEXT, status TEXT,
                    total REAL);
CREATE TABLE items(order_id INTEGER REFERENCES orders(id), product_id INTEGER REFERENCES products(id), quantity INTEGER,
                   price REAL, note TEXT);
CREATE TABLE regions(code TEXT PRIMARY KEY, label TEXT) WITHOUT ROWID;
CREATE TABLE audit(id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT);
CREATE TABLE scratch(a INTEGER, b TEXT);
"""
_INDEXES = """
CREATE INDEX customers_city ON customers(city);
CREATE INDEX orders_customer ON orders(customer_id);
CREATE INDEX orders_day ON orders(day);
CREATE INDEX items_order ON items(order_id);
CREATE INDEX items_product ON items(product_id);
CREATE INDEX scratch_a ON scratch(a);
CREATE VIEW order_names AS SELECT o.id, c.name, o.total FROM orders o JOIN customers c ON c.id = o.customer_id;
CREATE TRIGGER order_audit AFTER INSERT ON orders BEGIN INSERT INTO audit(what) VALUES ('order ' || new.id); END;
"""
# Columns of the i-th row.
_CUSTOMERS = """i, 'Customer ' || hex(i * 7919), 'City' || (i * 31 % 997), 'seg' || (i % 5),
date('2015-01-01', '+' || (i % 3000) || ' days')"""
_PRODUCTS = "i, 'Product ' || hex(i * 104729), 'cat' || (i % 23), i * 37 % 10000 / 100.0"
_ORDERS = """i, 1 + i * 2654435761 % {customers}, date('2015-01-01', '+' || (i * 7919 % 3600) || ' days'),
CASE i % 4 WHEN 0 THEN 'open' WHEN 1 THEN 'paid' WHEN 2 THEN 'sent' ELSE 'void' END, i * 97 % 100000 / 100.0"""
_ORDER_ITEMS = """1 + (i - 1) / {each}, 1 + i * 40503 % {products}, 1 + i % 9, i * 37 % 10000 / 100.0,
'note ' || hex(i * 7919) || ' lorem ipsum dolor sit amet ' || (i % 1000)"""

MUTATIONS = (
    "INSERT INTO orders(customer_id, day, status, total) VALUES (3, '2024-02-29', 'open', 12.5)",
    "UPDATE orders SET total = total + 1 WHERE customer_id = 5",
    "DELETE FROM items WHERE order_id = 7",
    "ALTER TABLE scratch ADD COLUMN c INTEGER",
    "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes VALUES (1, 'first')",
    "DROP TABLE scratch",
)


def selects(number: int) -> tuple[str, ...]:
    """The reading part of trajectory `number`: small reads as an agent does them, another text every time."""
    customer = 1 + number % 20
    return (
        f"SELECT name, city FROM customers WHERE id = {customer}",
        f"SELECT status, COUNT(*), SUM(total) FROM orders WHERE customer_id = {customer} GROUP BY status",
        "SELECT p.name, i.quantity, o.day FROM orders o JOIN items i ON i.order_id = o.id "
        f"JOIN products p ON p.id = i.product_id WHERE o.customer_id = {customer} ORDER BY o.day, p.name LIMIT 20",
    )


def make_database(path: Path, megabytes: float) -> Path:
    """Write a database of about `megabytes` (10^6 bytes) with seven tables, indexes, a view and a trigger."""
    orders = max(100, round(megabytes * 1e6 / _BYTES_PER_ORDER))
    customers, products = max(20, orders // 10), max(20, orders // 50)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-200000").fetchall()
    connection.execute(_TABLES)
    connection.execute("BEGIN")
    for table, rows, values in (
        ("customers", customers, _CUSTOMERS),
        ("products", products, _PRODUCTS),
        ("orders", orders, _ORDERS.format(customers=customers)),
        ("items", orders * _ITEMS, _ORDER_ITEMS.format(each=_ITEMS, products=products)),
        ("regions", 200, "'R' || i, 'Region ' || i"),
        ("scratch", 300, "i, 'x' || i"),
    ):
        connection.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) "
            f"INSERT INTO {table} SELECT {values} FROM n"
        )
    connection.execute(_INDEXES)
    connection.execute("COMMIT")
    connection.close()
    return path


def require_space(folder: Path, needed: float) -> None:
    """Raises InputError when `folder` has less than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{folder}: {free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB needed; free some, give another --work, or "
            "smaller --sizes"
        )

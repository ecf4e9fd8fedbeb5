"""A small shop database as a template store, for the tests of the rewinder and its gates."""

from __future__ import annotations

from pathlib import Path
from random import Random

import apsw

from birdrl.gym.introspect import read_schema
from birdrl.gym.templates import TemplateStore, TemplateWriter, open_template

_SCHEMA = """
CREATE TABLE supplier (supplier_id INTEGER PRIMARY KEY, supplier_name TEXT NOT NULL, country TEXT, founded TEXT);
CREATE TABLE product (
  product_id INTEGER PRIMARY KEY, product_name TEXT NOT NULL, category TEXT, price REAL, stock INTEGER,
  weight INTEGER, added_on TEXT, supplier_id INTEGER REFERENCES supplier (supplier_id)
);
CREATE TABLE sale (
  sale_id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES product (product_id), sold_on TEXT,
  quantity INTEGER, channel TEXT
);
CREATE TABLE staff (
  staff_id INTEGER PRIMARY KEY, staff_name TEXT NOT NULL, boss_id INTEGER REFERENCES staff (staff_id), salary INTEGER
);
CREATE TABLE review (
  review_id INTEGER PRIMARY KEY, product_id INTEGER REFERENCES product (product_id),
  staff_id INTEGER REFERENCES staff (staff_id), score INTEGER
)
"""


def make_store(folder: Path, db_ids: tuple[str, ...] = ("shop",)) -> TemplateStore:
    """A store of shops, the same rows for the same id."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = TemplateWriter(folder)
    for db_id in db_ids:
        file = folder / f"{db_id}.part"
        _fill(file, Random(db_id))
        connection = open_template(file)
        schema = read_schema(connection, db_id, {})
        connection.close()
        writer.add(db_id, file, schema, "test")
    writer.finish()
    return TemplateStore(folder)


def _fill(file: Path, rng: Random) -> None:
    connection = apsw.Connection(str(file))
    for statement in _SCHEMA.strip().split(";"):
        connection.execute(statement)
    countries = ["Norway", "Spain", "Japan", None]
    names = ["Nordic Foods", "Iberia Trade", "Kyoto Goods", "Alpha Supply", "Blue Harbor", "Old Mill", "Sun Valley"]
    for number, name in enumerate(names, 1):
        founded = f"{1950 + number * 7}-0{1 + number % 9}-11"
        connection.execute("INSERT INTO supplier VALUES (?, ?, ?, ?)", (number, name, rng.choice(countries), founded))
    things = ["Lamp", "Chair", "Desk", "Rug", "Vase", "Clock", "Shelf", "Mirror"]
    for number in range(1, 41):
        row = (
            number,
            f"{rng.choice(things)} {rng.choice('ABCDE')}{number}",
            rng.choice(["Garden", "Kitchen", "Office", None]),
            round(rng.uniform(2, 90), 2),
            rng.choice([0, 3, 5, 8, 13, 21]),
            rng.choice([100, 250, 400, 900]),
            f"202{rng.randrange(1, 4)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 28):02d}",
            rng.choice([1, 2, 3, 4, 5, None]),
        )
        connection.execute("INSERT INTO product VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for number in range(1, 161):
        day = f"202{rng.randrange(2, 5)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 28):02d}"
        row2 = (number, rng.randrange(1, 36), day, rng.randrange(1, 9), rng.choice(["web", "store", "phone"]))
        connection.execute("INSERT INTO sale VALUES (?, ?, ?, ?, ?)", row2)
    for number in range(1, 31):
        row3 = (number, f"{rng.choice(things)}y {number}", None if number < 4 else rng.randrange(1, number // 2 + 1))
        connection.execute("INSERT INTO staff VALUES (?, ?, ?, ?)", (*row3, rng.choice([30, 35, 42, 50, 61])))
    for number in range(1, 61):
        row4 = (number, rng.randrange(1, 31), rng.randrange(1, 26), rng.randrange(1, 6))
        connection.execute("INSERT INTO review VALUES (?, ?, ?, ?)", row4)
    connection.close()

"""The column vocabulary in which the generated domains are written.

A column is a declared type and a function that draws its value from a seeded generator and the row so far. Columns are
drawn in declared order, so a column may depend on the ones before it (a delivery date on an order date).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal

from birdrl.gym.domains import words

Value = int | float | str | None
Shape = Literal["flat", "low", "bell"]


@dataclass(frozen=True)
class Draw:
    """What a column function sees: its own generator, the row so far, and the rows of the tables before."""

    rng: random.Random
    index: int
    rows: int
    row: Mapping[str, Value]
    parents: Mapping[str, Sequence[Mapping[str, Value]]]


@dataclass(frozen=True)
class ColumnSpec:
    type: str
    draw: Callable[[Draw], Value]
    null: float = 0.0  # share of rows without a value
    unique: bool = False
    primary_key: bool = False
    references: str = ""  # table
    label: str = ""  # words a person would use, when the name does not say it

    def named(self, label: str) -> ColumnSpec:
        """The same column with words of its own, for abbreviated names."""
        return replace(self, label=label)


@dataclass(frozen=True)
class TableSpec:
    name: str
    rows: int
    columns: dict[str, ColumnSpec]
    primary_key: tuple[str, ...] = ()  # composite keys only
    unique: tuple[tuple[str, ...], ...] = ()
    checks: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()  # each "column" or "column, column"
    label: str = ""


@dataclass(frozen=True)
class Domain:
    db_id: str
    tables: tuple[TableSpec, ...]


def table(
    name: str,
    rows: int,
    columns: dict[str, ColumnSpec],
    *,
    key: str = "",
    unique: str = "",
    checks: Sequence[str] = (),
    indexes: Sequence[str] = (),
    label: str = "",
) -> TableSpec:
    """A table; `key` and `unique` name columns separated by spaces."""
    return TableSpec(
        name, rows, columns, tuple(key.split()), (tuple(unique.split()),) if unique else (), tuple(checks),
        tuple(indexes), label,
    )  # fmt: skip


def key(start: int = 1) -> ColumnSpec:
    """Consecutive integers: the table's primary key."""
    return ColumnSpec("INTEGER", lambda d: start + d.index, primary_key=True)


def code(prefix: str, first: int = 100, step: int = 3) -> ColumnSpec:
    """A unique text code such as FL103, FL106."""
    return ColumnSpec("TEXT", lambda d: f"{prefix}{first + step * d.index}", unique=True)


@lru_cache(maxsize=256)
def _cumulative(count: int, skew: float) -> list[float]:
    return list(accumulate((i + 1) ** -skew for i in range(count)))


def zipf_choice(rng: random.Random, count: int, skew: float) -> int:
    """An index below `count`, index i with weight 1 / (i + 1) ** skew."""
    return rng.choices(range(count), cum_weights=_cumulative(count, skew))[0]


def _options(choices: str | Sequence[str]) -> list[str]:
    return choices.split("|") if isinstance(choices, str) else list(choices)


def pick(choices: str | Sequence[str], skew: float = 0.7, null: float = 0.0) -> ColumnSpec:
    """One of the choices (text separated by '|'), earlier ones more often."""
    options = _options(choices)
    return ColumnSpec("TEXT", lambda d: options[zipf_choice(d.rng, len(options), skew)], null)


def city(null: float = 0.0) -> ColumnSpec:
    return pick(words.CITIES, 0.6, null)


def country(null: float = 0.0) -> ColumnSpec:
    return pick(words.COUNTRIES, 0.6, null)


def person() -> ColumnSpec:
    """First and last name; now and then two people share one."""
    return ColumnSpec("TEXT", lambda d: f"{d.rng.choice(words.FIRST_NAMES)} {d.rng.choice(words.LAST_NAMES)}")


def phrase(second: str | Sequence[str] = words.NOUNS, first: str | Sequence[str] = words.ADJECTIVES) -> ColumnSpec:
    """A name of two words, such as 'Silver Harbor'."""
    starts, ends = _options(first), _options(second)
    return ColumnSpec("TEXT", lambda d: f"{d.rng.choice(starts)} {d.rng.choice(ends)}")


def address() -> ColumnSpec:
    return ColumnSpec("TEXT", lambda d: f"{d.rng.randint(1, 180)} {d.rng.choice(words.STREETS)} Street")


def email(name_column: str, host: str, null: float = 0.0) -> ColumnSpec:
    """An address made of the name in `name_column`; the row number keeps it unique."""

    def draw(d: Draw) -> Value:
        name = str(d.row[name_column]).lower().replace(" ", ".")
        return f"{name}{d.index + 1}@{host}"

    return ColumnSpec("TEXT", draw, null, unique=True)


def note(null: float = 0.6) -> ColumnSpec:
    return ColumnSpec("TEXT", lambda d: d.rng.choice(words.NOTES), null)


def _unit(rng: random.Random, shape: Shape) -> float:
    if shape == "low":
        return rng.random() * rng.random() * rng.random()
    if shape == "bell":
        return (rng.random() + rng.random() + rng.random()) / 3
    return rng.random()


def whole(low: int, high: int, shape: Shape = "flat", null: float = 0.0) -> ColumnSpec:
    """An integer in [low, high]."""
    return ColumnSpec("INTEGER", lambda d: low + int(_unit(d.rng, shape) * (high - low + 1)), null)


def real(low: float, high: float, digits: int = 2, shape: Shape = "flat", null: float = 0.0) -> ColumnSpec:
    """A number in [low, high] with that many decimals."""
    return ColumnSpec("REAL", lambda d: round(low + _unit(d.rng, shape) * (high - low), digits), null)


def flag(share: float) -> ColumnSpec:
    """1 in that share of rows, else 0."""
    return ColumnSpec("INTEGER", lambda d: int(d.rng.random() < share))


def _between(rng: random.Random, first: str, last: str) -> datetime:
    start, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
    return start + timedelta(minutes=rng.randrange(int((end - start).total_seconds() // 60) + 1))


def date(first: str, last: str, null: float = 0.0) -> ColumnSpec:
    """ISO text YYYY-MM-DD."""
    return ColumnSpec("TEXT", lambda d: _between(d.rng, first, last).date().isoformat(), null)


def moment(first: str, last: str, null: float = 0.0) -> ColumnSpec:
    """ISO text YYYY-MM-DD HH:MM:SS."""
    return ColumnSpec("TEXT", lambda d: _between(d.rng, first, last).isoformat(" "), null)


def later(column: str, low: int, high: int, null: float = 0.0) -> ColumnSpec:
    """A date `low` to `high` days after the date in `column`; NULL when that is NULL."""

    def draw(d: Draw) -> Value:
        start = d.row[column]
        if start is None:
            return None
        return (datetime.fromisoformat(str(start)) + timedelta(days=d.rng.randint(low, high))).date().isoformat()

    return ColumnSpec("TEXT", draw, null)


def ref(target: str, skew: float = 0.5, null: float = 0.0, unused: float = 0.1, avoid: str = "") -> ColumnSpec:
    """A foreign key to `target`: popular rows more often, a share of rows never (so outer joins matter).

    `avoid` names an earlier column whose value this one must not repeat (the away team is not the home team).
    """

    def draw(d: Draw) -> Value:
        rows = d.parents[target]
        used = max(2, round(len(rows) * (1 - unused)))
        while True:
            # A fixed stride spreads the popular rows over the table instead of putting them all first.
            position = zipf_choice(d.rng, used, skew) * _stride(len(rows)) % len(rows)
            value = next(iter(rows[position].values()))
            if not avoid or value != d.row[avoid]:
                return value

    return ColumnSpec("", draw, null, references=target)


@lru_cache(maxsize=256)
def _stride(count: int) -> int:
    """A number near 0.38 * count without a common divisor with it."""
    stride = max(1, int(count * 0.38))
    while any(count % p == 0 and stride % p == 0 for p in range(2, stride + 1)):
        stride += 1
    return stride


def earlier_row(target: str, null: float) -> ColumnSpec:
    """A foreign key to an earlier row of the table itself (a manager); the first rows have none."""

    def draw(d: Draw) -> Value:
        return None if d.index < 3 else d.rng.randint(1, max(1, d.index // 3))

    return ColumnSpec("", draw, max(null, 1e-9), references=target)


def carried(key_column: str, target: str, column: str, spread: float) -> ColumnSpec:
    """The number in `column` of the referenced row, moved by up to `spread` (a price at the time of sale)."""

    def draw(d: Draw) -> Value:
        wanted = d.row[key_column]
        row = next(r for r in d.parents[target] if next(iter(r.values())) == wanted)
        return round(_number(row[column]) * (1 + spread * (2 * d.rng.random() - 1)), 2)

    return ColumnSpec("REAL", draw)


def product(left: str, right: str, factor: float = 1.0) -> ColumnSpec:
    """left * right * factor, rounded to cents; NULL when either is."""

    def draw(d: Draw) -> Value:
        a, b = d.row[left], d.row[right]
        return None if a is None or b is None else round(_number(a) * _number(b) * factor, 2)

    return ColumnSpec("REAL", draw)


def when(column: str, values: str, then: ColumnSpec) -> ColumnSpec:
    """`then` where `column` holds one of the values (separated by '|'), else NULL (a return date of open loans)."""
    allowed = values.split("|")
    return replace(
        then, draw=lambda d: then.draw(d) if str(d.row[column]) in allowed else None, null=max(then.null, 1e-9)
    )


def _number(value: Any) -> float:
    return float(value)

"""Conditions on a column, with literals taken from its data and words for the question."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from birdrl.gym.querygen.source import Field, Source
from birdrl.gym.values import ColumnKind, Value, literal


@dataclass(frozen=True)
class Condition:
    sql: str
    words: str


def condition(field: Field, rng: Random) -> Condition | None:
    """A condition that some rows of the column meet and others do not, or None when the column offers none."""
    profile = field.profile
    if profile.nulls and rng.random() < (0.15 if profile.kind is not ColumnKind.KEY else 0.5):
        if rng.random() < 0.5:
            return Condition(f"{field.ref} IS NULL", f"{field.words} is missing")
        return Condition(f"{field.ref} IS NOT NULL", f"{field.words} is known")
    if profile.distinct < 2:
        return None
    match field.kind:
        case ColumnKind.CATEGORY:
            return _category(field, rng)
        case ColumnKind.TEXT:
            return _text(field, rng)
        case ColumnKind.INTEGER | ColumnKind.REAL:
            return _number(field, rng)
        case ColumnKind.DATE:
            return _date(field, rng)
        case _:
            return None


def conditions(source: Source, rng: Random, count: int, *, exclude: str = "") -> Condition | None:
    """Up to `count` conditions on different columns joined by AND, now and then OR; None without any."""
    fields = [f for f in source.fields if f.ref != exclude]
    rng.shuffle(fields)
    found: list[Condition] = []
    for field in fields:
        if len(found) == count:
            break
        made = condition(field, rng)
        if made:
            found.append(made)
    if not found:
        return None
    if len(found) == 2 and rng.random() < 0.2:
        return Condition(f"({found[0].sql} OR {found[1].sql})", f"{found[0].words} or {found[1].words}")
    return Condition(" AND ".join(c.sql for c in found), " and ".join(c.words for c in found))


def where(source: Source, rng: Random, count: int, *, exclude: str = "") -> tuple[str, str]:
    """(' WHERE ...', ' whose ...'), or two empty texts when there is no condition."""
    made = conditions(source, rng, count, exclude=exclude) if count else None
    return (f" WHERE {made.sql}", f" whose {made.words}") if made else ("", "")


def _category(field: Field, rng: Random) -> Condition:
    common = field.profile.common
    roll = rng.random()
    value = common[min(int(rng.random() ** 1.5 * len(common)), len(common) - 1)]
    if roll < 0.62:
        return Condition(f"{field.ref} = {literal(value)}", f"{field.words} is {value}")
    if roll < 0.70:
        return Condition(f"{field.ref} <> {literal(value)}", f"{field.words} is not {value}")
    if roll < 0.90 and len(common) >= 3:
        chosen = sorted(rng.sample(common, min(rng.choice((2, 2, 3)), len(common) - 1)), key=str)
        listed = ", ".join(literal(v) for v in chosen)
        return Condition(f"{field.ref} IN ({listed})", f"{field.words} is one of {', '.join(map(str, chosen))}")
    start = str(value)[:1]
    return Condition(f"{field.ref} LIKE {literal(start + '%')}", f"{field.words} starts with {start}")


def _text(field: Field, rng: Random) -> Condition | None:
    value = str(rng.choice(field.profile.values))
    parts = [part for part in value.split() if part.isalnum()]
    if not parts:
        return None
    part = rng.choice(parts)[:12]
    roll = rng.random()
    if roll < 0.3 and len(value) <= 30:
        return Condition(f"{field.ref} = {literal(value)}", f"{field.words} is {value}")
    if roll < 0.5:
        return Condition(
            f"{field.ref} LIKE {literal(parts[0][:12] + '%')}", f"{field.words} starts with {parts[0][:12]}"
        )
    return Condition(f"{field.ref} LIKE {literal('%' + part + '%')}", f"{field.words} contains {part}")


def _number(field: Field, rng: Random) -> Condition:
    if field.is_flag:
        state = rng.choice((0, 1))
        return Condition(f"{field.ref} = {state}", f"{field.words} is {state}")
    if field.kind is ColumnKind.INTEGER and field.profile.distinct <= 12 and rng.random() < 0.4:
        exact = rng.choice(field.profile.common[:8])
        return Condition(f"{field.ref} = {exact}", f"{field.words} is {exact}")
    if rng.random() < 0.25:
        low = _rounded(field.profile.quantile(rng.uniform(0.1, 0.45)), rng)
        high = _rounded(field.profile.quantile(rng.uniform(0.55, 0.9)), rng)
        if low < high:
            return Condition(f"{field.ref} BETWEEN {low!r} AND {high!r}", f"{field.words} is between {low} and {high}")
    value = _rounded(field.profile.quantile(rng.uniform(0.15, 0.85)), rng)
    operator, said = rng.choice((
        (">", "is greater than"), (">=", "is at least"), ("<", "is less than"), ("<=", "is at most"),
    ))  # fmt: skip
    return Condition(f"{field.ref} {operator} {value!r}", f"{field.words} {said} {value}")


def _rounded(value: Value, rng: Random) -> int | float:
    """The number itself or, more often, a round one near it, as people write them."""
    number = float(value)
    if isinstance(value, int):
        step = 10 if abs(value) >= 100 and not 1500 <= value <= 2100 else 1
        return round(value / step) * step
    if rng.random() < 0.6 and abs(number) >= 10:
        return round(number)
    return round(number, 2)


def _date(field: Field, rng: Random) -> Condition:
    value = str(field.profile.quantile(rng.uniform(0.15, 0.85)))[:10]
    roll = rng.random()
    if roll < 0.3:
        return Condition(f"strftime('%Y', {field.ref}) = '{value[:4]}'", f"{field.words} is in {value[:4]}")
    if roll < 0.5:
        other = str(field.profile.quantile(rng.random()))[:10]
        low, high = sorted((value, other))
        if low < high:
            return Condition(f"{field.ref} BETWEEN '{low}' AND '{high}'", f"{field.words} is between {low} and {high}")
    day = value[:8] + "01" if rng.random() < 0.6 else value
    if roll < 0.75:
        return Condition(f"{field.ref} >= '{day}'", f"{field.words} is on or after {day}")
    return Condition(f"{field.ref} < '{day}'", f"{field.words} is before {day}")

"""What a bug kind is: a small function that writes an issue draft, and the registry of all kinds.

Two sorts: a *mutation* edits the tree of a verified SELECT in place; a *construction* writes issue and solution
from the schema and the data. Both return None where they do not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from sqlglot import exp

from birdrl.errors import InputError
from birdrl.gym.instance import Category, FeatureTest, PlanTest, ResultTest, StateTest
from birdrl.gym.rewind.data import DataView, quoted
from birdrl.gym.rewind.tree import canonical, is_ordered, owner, peek, render, table_names
from birdrl.gym.rewind.words import Words
from birdrl.gym.schema import Column, Schema, Table
from birdrl.gym.sql_text import figures_once

Test = ResultTest | StateTest | FeatureTest | PlanTest


@dataclass(frozen=True)
class Draft:
    """An issue before its gates: everything of an instance but its id and its perturbed tests."""

    kind: str
    family: str
    category: Category
    db_id: str
    source_id: str
    issue_sql: tuple[str, ...]
    sol_sql: tuple[str, ...]
    query: str
    cause: str
    intent: str
    tests: tuple[Test, ...]
    issue_fails: bool = False  # the buggy SQL is meant to end in an error
    preprocess_sql: tuple[str, ...] = ()
    clean_up_sql: tuple[str, ...] = ()
    perturb_tables: tuple[str, ...] = ()  # template tables whose change should show in the tests
    perturb_first: tuple[str, ...] = ()  # a set-up on which the bug surely shows, tried before all others
    question: str | None = None  # what the verified SQL answers, where its source says so


@dataclass(frozen=True)
class Text:
    """The words of an issue: `report` is what the user sees go wrong and wants; `cause` and `intent` go on record."""

    report: str
    cause: str
    intent: str
    issue_fails: bool = False  # the bug shows as an error message, not as a wrong result


@dataclass
class Bench:
    """What a kind works with: schema, data, words and its own random generator."""

    data: DataView
    words: Words
    rng: Random
    kind: str = ""
    family: str = ""
    category: Category = "query"

    @property
    def schema(self) -> Schema:
        return self.data.schema

    @property
    def names(self) -> set[str]:
        """Lower-case names of all tables and columns: in a text they keep their spelling."""
        return {t.name.lower() for t in self.schema.tables} | {
            c.name.lower() for t in self.schema.tables for c in t.columns
        }

    def pick(self, options: Sequence[str]) -> str:
        return self.rng.choice(list(options))

    def other_column(self, column: exp.Column, *, exclude: Sequence[str] = ()) -> tuple[Column, Column] | None:
        """(the column meant, another column of its table, of the same sort where possible)."""
        found = owner(column, self.schema)
        if found is None:
            return None
        table, meant = found
        banned = {meant.name.lower(), *(name.lower() for name in exclude)}
        others = [c for c in table.columns if c.name.lower() not in banned and quoted(c.name) == c.name]
        same_sort = [c for c in others if self.data.is_number(table, c) == self.data.is_number(table, meant)]
        pool = same_sort or others
        return (meant, self.rng.choice(pool)) if pool else None

    def sentence(self, text: str) -> str:
        """Trimmed, with a full stop, and a capital first letter unless the first word is a name of the schema."""
        flat = figures_once(" ".join(text.split()))
        first = flat.split(" ", 1)[0].strip(",:;'.").lower()
        if "_" not in first and "." not in first and first not in self.names:
            flat = flat[0].upper() + flat[1:]
        return flat if flat.endswith((".", "?", "!")) else f"{flat}."

    def select(
        self,
        issue: str,
        solution: str,
        text: Text,
        *,
        required: Sequence[str] = (),
        forbidden: Sequence[str] = (),
        plan: PlanTest | None = None,
        preprocess: Sequence[str] = (),
        clean_up: Sequence[str] = (),
        perturb_first: Sequence[str] = (),
        tables: Sequence[Table] = (),
        raw: bool = False,
        source_id: str = "",
    ) -> Draft:
        """Draft of one SELECT against another; features become a FeatureTest.

        `tables` are those that the query reads by way of preprocess SQL. `raw` leaves both texts as they are: for
        syntax that the generator would write otherwise, or does not know.
        """
        tree = peek(solution)
        tests: list[Test] = [ResultTest(ordered=is_ordered(tree))]
        if required or forbidden:
            tests.append(FeatureTest(required=list(required), forbidden=list(forbidden)))
        tests += [plan] if plan else []
        issue, solution = (issue, solution) if raw else (canonical(issue), canonical(solution))
        perturbed = [*(table.name for table in tables), *table_names(tree)]
        draft = self.draft([issue], [solution], text, tests, preprocess, clean_up, perturbed, source_id)
        return replace(draft, perturb_first=tuple(perturb_first))

    def state(
        self,
        issue: Sequence[str],
        solution: Sequence[str],
        text: Text,
        probes: Sequence[str],
        *,
        tables: Sequence[Table],
        preprocess: Sequence[str] = (),
        clean_up: Sequence[str] = (),
        required: Sequence[str] = (),
        forbidden: Sequence[str] = (),
        plan: PlanTest | None = None,
        raw: bool = False,
    ) -> Draft:
        """Draft of statements that change the database; each probe becomes a StateTest. `raw`: see `select`."""
        tests: list[Test] = [StateTest(probe_sql=canonical(probe)) for probe in probes]
        if required or forbidden:
            tests.append(FeatureTest(required=list(required), forbidden=list(forbidden)))
        tests += [plan] if plan else []
        spelled = list if raw else _canonical_all
        names = [table.name for table in tables]
        return self.draft(spelled(issue), spelled(solution), text, tests, preprocess, clean_up, names, "")

    def with_issue(self, draft: Draft, issue: Sequence[str]) -> Draft:
        """The draft with several statements as its issue."""
        return replace(draft, issue_sql=tuple(canonical(statement) for statement in issue))

    def draft(
        self,
        issue: Sequence[str],
        solution: Sequence[str],
        text: Text,
        tests: Sequence[Test],
        preprocess: Sequence[str],
        clean_up: Sequence[str],
        perturb_tables: Sequence[str],
        source_id: str,
    ) -> Draft:
        """Draft of statements that are in canonical form already."""
        return Draft(
            kind=self.kind,
            family=self.family,
            category=self.category,
            db_id=self.data.db_id,
            source_id=source_id or "constructed",
            issue_sql=tuple(issue),
            sol_sql=tuple(solution),
            query=self.sentence(text.report),
            cause=self.sentence(text.cause),
            intent=self.sentence(text.intent),
            tests=tuple(tests),
            issue_fails=text.issue_fails,
            preprocess_sql=tuple(preprocess),
            clean_up_sql=tuple(clean_up),
            perturb_tables=tuple(name for name in perturb_tables if self.schema.table(name)),
        )


def _canonical_all(statements: Sequence[str]) -> list[str]:
    return [canonical(statement) for statement in statements]


def column_name(column: Column) -> str:
    """A schema column as SQL."""
    return quoted(column.name)


Mutator = Callable[[Bench, exp.Expression], Text | None]
Constructor = Callable[[Bench], Draft | None]


@dataclass(frozen=True)
class BugKind:
    """A kind of the taxonomy; exactly one of `mutate` and `construct` is set."""

    name: str
    family: str
    category: Category
    mutate: Mutator | None = None
    construct: Constructor | None = None
    doc: str = field(default="")


KINDS: dict[str, BugKind] = {}


def _register(kind: BugKind) -> None:
    if kind.name in KINDS:
        raise ValueError(f"bug kind {kind.name!r} is defined twice")
    KINDS[kind.name] = kind


def kinds_of(names: Sequence[str]) -> list[BugKind]:
    """The kinds with these names or of these families, all of them for no name. Raises InputError for unknown names."""
    families = {kind.family for kind in KINDS.values()}
    unknown = sorted(set(names) - families - KINDS.keys())
    if unknown:
        raise InputError(
            f"gym.kinds: no bug kind {', '.join(unknown)}; there are {', '.join(sorted(KINDS))}; "
            f"families are {', '.join(sorted(families))}"
        )
    return [kind for name, kind in sorted(KINDS.items()) if not names or name in names or kind.family in names]


def mutation(family: str) -> Callable[[Mutator], Mutator]:
    """Register a mutation of verified SELECTs under the function's name."""

    def register(function: Mutator) -> Mutator:
        doc = (function.__doc__ or "").strip()
        _register(BugKind(function.__name__, family, "query", mutate=function, doc=doc))
        return function

    return register


def construction(family: str, category: Category) -> Callable[[Constructor], Constructor]:
    """Register a construction from schema and data under the function's name."""

    def register(function: Constructor) -> Constructor:
        doc = (function.__doc__ or "").strip()
        _register(BugKind(function.__name__, family, category, construct=function, doc=doc))
        return function

    return register


_OPENERS = (
    "Wrong result.",
    "The answer is off.",
    "This looks incorrect.",
    "Something is wrong here.",
    "Please fix this.",
)


def apply_mutation(
    kind: BugKind, bench: Bench, tree: exp.Expression, source_id: str, question: str | None = None
) -> Draft | None:
    """Mutate a copy of a verified tree; the draft, or None where the kind does not apply."""
    if kind.mutate is None:
        raise ValueError(f"{kind.name} is not a mutation")
    bench.kind, bench.family, bench.category = kind.name, kind.family, kind.category
    holder = exp.Paren(this=tree.copy())  # gives the root a parent, so that a mutation can replace it
    text = kind.mutate(bench, holder.this)
    if text is None:
        return None
    if bench.rng.random() < 0.35:
        opener = bench.rng.choice(_OPENERS)
        text = replace(text, report=f"{opener} {bench.sentence(text.report)}")
    tests = [ResultTest(ordered=is_ordered(tree))]
    issue, solution = render(holder.this), render(tree)
    draft = bench.draft([issue], [solution], text, tests, [], [], table_names(tree), source_id)
    return replace(draft, question=question)


def apply_construction(kind: BugKind, bench: Bench) -> Draft | None:
    """Run a construction; the draft, or None where the database offers nothing for it."""
    if kind.construct is None:
        raise ValueError(f"{kind.name} is not a construction")
    bench.kind, bench.family, bench.category = kind.name, kind.family, kind.category
    return kind.construct(bench)

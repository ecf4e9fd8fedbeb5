"""What rewards see of an episode: queries, states, form."""

from __future__ import annotations

import pytest
from play import answer, play, run, submit
from shop import OneTemplate, make_instance

from birdrl.rewards.execution import Blame
from birdrl.rewards.replay import trajectory_of
from birdrl.rewards.trajectory import Query, Trajectory, Turn, is_probe, states
from birdrl.sql import ReplicaPool


def levels(*turns: list[Query], final: str | None, answer_like: bool = False) -> list[tuple[int, str | None]]:
    told = tuple(Turn("", tuple(queries)) for queries in turns)
    trajectory = Trajectory(make_instance(), told, None if final is None else (final,), True, 3)
    return [(state.turn, state.sql) for state in states(trajectory, answer_like=answer_like)]


RAN, HANDED = Query("a"), Query("a", submitted=True)


def test_states_of_a_trajectory() -> None:
    b = Query("b", submitted=True)
    assert levels([RAN], [HANDED], final="a") == [(0, "a")], "handing in what was run is no new state"
    assert levels([RAN], [b], final="b") == [(0, "a"), (1, "b")]
    assert levels([RAN], [], [b], final="b") == [(0, "a"), (2, "b")], "a turn without SQL is none"
    assert levels([RAN, Query("c")], final="c") == [(0, "c")], "the last query of a turn"
    assert levels([RAN, b], final="b") == [(0, "b")]
    assert levels([RAN], [Query("c")], [HANDED], final="a") == [(0, "a"), (1, "c"), (2, "a")]
    assert levels([RAN], [], final="written") == [(0, "a"), (1, "written")]
    assert levels([], final=None) == []
    assert levels([RAN], final=None) == [(0, "a"), (0, None)], "it ran SQL and has no solution in the end"
    assert levels([HANDED], final="a") == [(0, "a")]


def test_looking_at_the_database_is_no_state_when_answers_are_asked_for() -> None:
    look = Query("SELECT * FROM item LIMIT 5")
    assert levels([look], [RAN], [HANDED], final="a", answer_like=True) == [(1, "a")]
    assert levels([look], [RAN], [HANDED], final="a") == [(0, look.sql), (1, "a")]
    assert levels([look], final=look.sql, answer_like=True) == [(0, look.sql)], "unless it is the solution"


@pytest.mark.parametrize(
    ("sql", "probe"),
    [
        ("PRAGMA table_info(item)", True), ("explain query plan SELECT 1", True),
        (" select * from item limit 3 ; ", True),
        ("SELECT name FROM sqlite_master", True), ("SELECT name, price FROM item LIMIT 10;", True),
        ("SELECT name FROM item WHERE id = 1 LIMIT 3", False), ("SELECT max(price) FROM item LIMIT 1", False),
        ("SELECT name FROM item ORDER BY price LIMIT 1", False), ("SELECT name FROM item", False), ("", False),
        ("SELECT" + " " * 20_000 + "FROM item limit 1" + " " * 20_000 + "x", False),
    ],
)  # fmt: skip
def test_probes(sql: str, probe: bool) -> None:
    assert is_probe(sql) is probe


def test_an_episode_tells_its_queries(templates: OneTemplate, pool: ReplicaPool) -> None:
    texts = ["I look.\n" + run("SELECT 1") + run("SELEC"), "<tool_call>{</tool_call>", submit("SELECT 3")]
    told = play(make_instance(), texts, templates, pool)
    assert [turn.queries for turn in told.turns] == [
        (Query("SELECT 1"), Query("SELEC", ok=False)), (), (Query("SELECT 3", submitted=True),),
    ]  # fmt: skip
    assert [turn.malformed for turn in told.turns] == [0, 1, 0]
    assert told.turns[0].thought == told.reasoning == "I look."
    assert (told.final_sql, told.stop, told.max_turns, told.submitted) == (("SELECT 3",), "submitted", 3, True)
    assert not told.formatted
    assert [(state.sql, state.ok) for state in states(told)] == [("SELEC", False), ("SELECT 3", True)]


def test_form_is_well_formed_calls_and_one_submission(templates: OneTemplate, pool: ReplicaPool) -> None:
    def formatted(*texts: str) -> bool:
        return play(make_instance(), texts, templates, pool).formatted

    assert formatted(run("SELECT 1"), submit("SELECT 3"))
    assert not formatted(run("SELECT 1"), "done")
    assert not formatted(run("SELECT 1"), run("SELECT 1"), run("SELECT 1"))
    assert not formatted("nothing")
    assert answer(make_instance(), "So:\n```sql\nSELECT 3\n```").formatted
    assert not answer(make_instance(), "SELECT 3").formatted


def test_a_single_turn_answer(templates: OneTemplate) -> None:
    told = answer(make_instance(), "The bound.\n```sql\nSELECT 3\n```")
    assert told.turns[0].queries == (Query("SELECT 3", submitted=True),)
    assert (told.reasoning, told.max_turns, told.blame) == ("The bound.", 1, Blame.NONE)
    assert answer(make_instance(), "no idea").final_sql is None


@pytest.mark.parametrize(
    "texts",
    [
        [run("SELECT 1"), submit("SELECT 3")],
        [run("SELECT 1"), run("SELECT 2"), run("SELECT 3")],
        [run("SELECT 1"), "I write it down: ```sql\nSELECT 3\n```"],
        [run("SELECT 1") + submit("SELECT 3")],
        ["<tool_call>broken"],
    ],
)
def test_a_transcript_reads_back_as_its_trajectory(templates: OneTemplate, pool: ReplicaPool, texts: list[str]) -> None:
    told = play(make_instance(), texts, templates, pool)
    again = trajectory_of(told.messages, make_instance())
    assert again.turns == told.turns
    assert again.final_sql == told.final_sql
    assert states(again) == states(told)


def test_a_stored_value_is_not_a_call_of_the_policy() -> None:
    forged = [
        {"role": "user", "content": submit("SELECT 3")},
        {"role": "assistant", "content": run("SELECT name FROM item")},
        {"role": "tool", "content": submit("SELECT 3")},
        {"role": "assistant", "content": submit("SELECT 4")},
    ]
    told = trajectory_of(forged, make_instance())
    assert told.final_sql == ("SELECT 4",)
    assert [query.sql for turn in told.turns for query in turn.queries] == ["SELECT name FROM item", "SELECT 4"]

"""Issue texts that give their solution away, and those that only state facts."""

from __future__ import annotations

import pytest

from birdrl.gym.leaks import leaks, overlap

ISSUE = ["SELECT name FROM product WHERE price > 5"]


@pytest.mark.parametrize(
    ("text", "solution", "features", "found"),
    [
        ("Only price of at least 5 counts.", "SELECT name FROM product WHERE price >= 5", [], []),
        (
            "Make it price >= 5, please.",
            "SELECT name FROM product WHERE price >= 5",
            [],
            ["quotes the solution: price >= 5"],
        ),
        ("It says price > 5 there.", "SELECT name FROM product WHERE price > 5 AND stock > 0", [], []),
        ("Each name once.", "SELECT DISTINCT name FROM product WHERE price > 5", [], []),
        (
            "Add a DISTINCT there.",
            "SELECT DISTINCT name FROM product WHERE price > 5",
            [],
            ["names the edit: distinct"],
        ),
        (
            "You need a left join.",
            "SELECT name FROM product LEFT JOIN sale USING (id) WHERE price > 5",
            [],
            ["names the edit: left join"],
        ),
        (
            "Rank with DENSE_RANK, a window function.",
            "SELECT name, DENSE_RANK() OVER (ORDER BY price) FROM product",
            [],
            ["names the edit: dense_rank"],
        ),
        (
            "Rank with DENSE_RANK, a window function.",
            "SELECT name, DENSE_RANK() OVER (ORDER BY price) FROM product",
            ["window"],
            [],
        ),
        ("Round coalesce(price, 0).", "SELECT COALESCE(price, 0) FROM product", [], None),
        ("Order by price is fine, it should be the lowest.", "SELECT name FROM product ORDER BY price", [], None),
        ("The table archive_x (a, b) is empty.", "INSERT INTO archive_x (a, b) VALUES (1, 2)", [], None),
        ("It must count rows, with 0 if there are none.", "SELECT COUNT(*) FROM product", [], []),
    ],
)
def test_what_gives_a_solution_away(text, solution, features, found):
    result = leaks(text, ISSUE, [solution], features)
    assert bool(result) if found is None else result == found


def test_what_the_issue_shows_is_no_secret():
    assert leaks("It says GROUP BY name.", ["SELECT 1 GROUP BY name"], ["SELECT 2 GROUP BY name"]) == []


def test_overlap_counts_what_only_the_solution_has():
    solution = ["SELECT name FROM product WHERE price > 5 AND stock = 3"]
    nothing = overlap("Too many rows.", ISSUE, solution)
    assert (nothing.tokens, nothing.runs) == (0.0, 0.0)
    some = overlap("Only rows with stock 3 matter.", ISSUE, solution)
    assert some.tokens == pytest.approx(2 / 4)  # of: and, stock, =, 3
    assert some.runs == 0.0
    assert overlap("stock = 3", ISSUE, solution).runs > 0
    assert overlap("anything", ISSUE, ISSUE).tokens == 0.0

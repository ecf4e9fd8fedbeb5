"""Near-duplicates within a gym: both views have to be close, and order does not matter."""

from __future__ import annotations

from birdrl.gym.near import NearDuplicates

TEXT = "Rows at the edge are missing in my list of products, we need price of at least 20 there."
ISSUE = ["SELECT name, price FROM product WHERE price > 20"]
SOLUTION = ["SELECT name, price FROM product WHERE price >= 20"]


def known(*issues) -> NearDuplicates:
    near = NearDuplicates(0.85, 0.90)
    for issue in issues:
        near.add(*issue)
    return near


def test_an_equal_issue_and_one_of_another_number_are_found():
    near = known(("Something else altogether.", ["SELECT 1"], ["SELECT 2"]), (TEXT, ISSUE, SOLUTION))
    assert near.find(TEXT, ISSUE, SOLUTION) == 1
    other = [sql.replace("20", "25") for sql in (TEXT, ISSUE[0], SOLUTION[0])]
    assert NearDuplicates(0.8, 0.8).find(TEXT, ISSUE, SOLUTION) is None, "nothing is known yet"
    assert known((TEXT, ISSUE, SOLUTION)).find(other[0], ISSUE, SOLUTION) == 0


def test_one_close_view_is_not_enough():
    near = known((TEXT, ISSUE, SOLUTION))
    assert near.find("The report forgets articles that cost exactly the limit.", ISSUE, SOLUTION) is None
    assert near.find(TEXT, ["DELETE FROM stock"], ["DELETE FROM stock WHERE id = 3"]) is None


def test_two_issues_that_are_close_in_one_view_each_do_not_add_up():
    near = known((TEXT, ["DELETE FROM stock"], ["DROP TABLE stock"]), ("Quite another story.", ISSUE, SOLUTION))
    assert near.find(TEXT, ISSUE, SOLUTION) is None


def test_many_issues_are_kept_apart():
    near = NearDuplicates(0.85, 0.90)
    for number in range(200):
        text = f"story number{number} about topic{number}"
        near.add(text, [f"SELECT c{number} FROM t{number}"], [f"SELECT {number}"])
    assert len(near) == 200
    assert near.find("story number150 about topic150", ["SELECT c150 FROM t150"], ["SELECT 150"]) == 150

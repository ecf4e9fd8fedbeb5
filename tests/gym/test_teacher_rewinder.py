"""The teacher rewinder against a scripted server: rounds, gates, cache, budget, resuming, sides."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rewind_store import make_store

from birdrl.cli import main
from birdrl.errors import InfraError, InputError
from birdrl.gym.build import Gym
from birdrl.gym.instance import FeatureTest, ResultTest, StateTest, read_instances
from birdrl.gym.teacher import build_teacher_gym
from birdrl.gym.templates import TemplateStore
from birdrl.params import GymParams
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool

sys.path.insert(0, str(Path(__file__).parents[1] / "rewards"))
from chat_server import ChatServer

Answers = dict[str, Callable[[int, int], Any]]  # form -> answer to post `number` in round `round`


def adapted(number: int, round_: int) -> Any:
    return {"sql": [f"SELECT product_name FROM product WHERE stock > {number} ORDER BY product_id"], "task": "names"}


def perturbed(number: int, round_: int, **changes: Any) -> Any:
    return {
        "kind": "comparison_boundary", "cause": "The bound is counted.", "intent": "Only products above the bound.",
        "issue_sql": [f"SELECT product_name FROM product WHERE stock >= {number} ORDER BY product_id"],
        "issue_fails": False, "ordered": True, "probes": [], "required": [], "forbidden": [], **changes,
    }  # fmt: skip


def described(number: int, round_: int) -> Any:
    return {"query": f"My list of product names shows some with a stock of exactly {number}, I want only those above."}


# One function call that neither an interrupt nor a count of steps can end.
HANGS = "SELECT INSTR(HEX(ZEROBLOB(499000)), HEX(ZEROBLOB(240000)) || '1') FROM product"
GOOD: Answers = {
    "Adapted": adapted,
    "Perturbed": perturbed,
    "Described": described,
    "Verdict": lambda number, round_: {"consistent": True, "reason": "It fits."},
}


class Teacher(ChatServer):
    """Answers by the form asked for and the post's number, which its title holds; counts the rounds of each step."""

    def __init__(self, answers: Answers, *, usage: int | None = 10) -> None:
        super().__init__("", usage=usage)
        self.answers = answers
        self.down_after: int | None = None

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
        with self._lock:
            if self.down_after is not None and len(self.requests) >= self.down_after:
                return 500, json.dumps({"error": {"message": "down"}})
        form = body["response_format"]["json_schema"]["name"]
        told = "\n".join(message["content"] for message in body["messages"])
        number = int(re.search(r"Title (\d+)|exactly (\d+)", told).group().split()[-1])  # type: ignore[union-attr]
        rounds = 1 + sum("That was not accepted" in message["content"] for message in body["messages"])
        with self._lock:
            self.script = [json.dumps(self.answers[form](number, rounds))]
            reply = self.script[0]
        with self._lock:
            self.requests.append(body)
        message = {"role": "assistant", "content": reply}
        completion: dict[str, Any] = {
            "id": "c", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10},
        }  # fmt: skip
        return 200, json.dumps(completion)

    def asked(self) -> Counter[str]:
        return Counter(body["response_format"]["json_schema"]["name"] for body in self.requests)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TemplateStore:
    return make_store(tmp_path_factory.mktemp("store"), ("shop", "stall", "market"))


@pytest.fixture
def posts(tmp_path: Path) -> Path:
    """Posts 0, 3, 5, 8, 13: stocks that occur in the databases, so that the bound matters."""
    path = tmp_path / "posts.jsonl"
    body = "```sql\nSELECT name FROM items WHERE amount >= 10\n```"
    rows = [{"id": n, "title": f"Title {n}", "body": body, "tags": ["sql"]} for n in (0, 3, 5, 8, 13)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def serve() -> Iterator[Callable[..., Teacher]]:
    servers: list[Teacher] = []

    def start(**changes: Callable[[int, int], Any]) -> Teacher:
        server = Teacher({**GOOD, **changes})
        server.__enter__()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.__exit__()


def params(server: Teacher, posts: Path, cache: Path, **changes: Any) -> GymParams:
    endpoint = {"url": server.url, "model": "m", "cache": str(cache), "retries": 0, **changes.pop("endpoint", {})}
    values: dict[str, Any] = {
        "train_instances": 3, "eval_instances": 1, "rewinder": "teacher", "posts": [str(posts)],
        "eval_databases": ["market"], "shares": {"query": 1.0},
        "teacher": {"databases_per_post": 1, "requests": 1, "endpoint": endpoint, **changes.pop("teacher", {})},
    }  # fmt: skip
    return GymParams.model_validate({**values, **changes})


def everything(gym: Gym) -> list[Any]:
    return [instance.row() for instance in (*gym.train, *gym.evaluation)]


def test_posts_become_gated_instances_on_both_sides(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    server = serve()
    gym = build_teacher_gym(store, params(server, posts, tmp_path / "cache"), seed=1)
    assert (len(gym.train), len(gym.evaluation)) == (3, 1)
    assert {i.db_id for i in gym.evaluation} == {"market"}
    used = [instance.source["post_id"] for instance in (*gym.train, *gym.evaluation)]
    assert len(set(used)) == 4, "no post is on both sides"
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        scorer = ExecutionScorer(store, pool)
        for instance in (*gym.train, *gym.evaluation):
            assert scorer.score(instance, instance.sol_sql).reward == 1.0
            assert scorer.score(instance, instance.issue_sql).reward < 1.0
    first = gym.train[0]
    assert first.bug is not None
    assert (first.bug.kind, first.bug.family) == ("comparison_boundary", "filtering")
    assert first.source["rewinder"] == "teacher"
    assert first.query.startswith("My list of product names")
    assert any(isinstance(test, ResultTest) and test.ordered for test in first.test_cases)


def test_a_second_run_asks_nothing_and_gives_the_same(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    server = serve()
    wanted = params(server, posts, tmp_path / "cache", teacher={"databases_per_post": 1, "requests": 3})
    first = build_teacher_gym(store, wanted, seed=1)
    asked = len(server.requests)
    again = build_teacher_gym(store, params(server, posts, tmp_path / "cache"), seed=1)
    assert len(server.requests) == asked
    assert everything(again) == everything(first)


def test_a_run_that_was_cut_short_goes_on_where_it_stopped(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    whole = serve()
    complete = build_teacher_gym(store, params(whole, posts, tmp_path / "other"), seed=1)
    server = serve()
    server.down_after = 7
    with pytest.raises(InfraError, match="check the server"):
        build_teacher_gym(store, params(server, posts, tmp_path / "cache"), seed=1)
    server.down_after = None
    gym = build_teacher_gym(store, params(server, posts, tmp_path / "cache"), seed=1)
    assert everything(gym) == everything(complete)
    assert server.asked() == whole.asked()


def test_each_step_has_three_rounds_and_is_told_why(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    def late(good: Callable[[int, int], Any], bad: Any) -> Callable[[int, int], Any]:
        return lambda number, round_: good(number, round_) if round_ == 3 else bad

    no_table = {"sql": ["SELECT name FROM items"], "task": "t"}
    no_bug = perturbed(0, 1, issue_sql=["SELECT product_name FROM product WHERE stock > 0 ORDER BY product_id"])
    leak = {"query": "I want SELECT product_name FROM product WHERE stock > 5 ORDER BY product_id and exactly 5 more."}
    server = serve(
        Adapted=late(adapted, no_table),
        Perturbed=lambda n, r: perturbed(n, r) if r == 3 else {**no_bug, "issue_sql": adapted(n, r)["sql"]},
        Described=lambda n, r: described(n, r) if r == 3 else {**leak, "query": leak["query"].replace("5", str(n))},
    )
    gym = build_teacher_gym(store, params(server, posts, tmp_path / "cache", train_instances=1), seed=1)
    assert (len(gym.train), len(gym.evaluation)) == (1, 1)
    assert server.asked() == {"Adapted": 6, "Perturbed": 6, "Described": 6, "Verdict": 2}
    told = [body["messages"][-1]["content"] for body in server.requests if len(body["messages"]) > 2]
    assert sum("no such table: items" in text for text in told) == 4
    assert sum("issue and solution are the same text" in text for text in told) == 4
    assert sum("the issue text gives the solution away" in text for text in told) == 4
    assert all(body["messages"][2]["role"] == "assistant" for body in server.requests if len(body["messages"]) > 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Adapted": lambda n, r: {"sql": ["SELECT 1 WHERE 0"], "task": "t"}}, "adapt: the result is empty"),
        ({"Adapted": lambda n, r: {"sql": ["SELECT RANDOM()"], "task": "t"}}, "adapt: non-deterministic"),
        ({"Adapted": lambda n, r: {"sql": [], "task": "t"}}, "adapt: there is no SQL"),
        ({"Adapted": lambda n, r: {"rows": 1}}, "adapt: the answer is not JSON of the asked form"),
        ({"Perturbed": lambda n, r: perturbed(n, r, issue_sql=["SELECT ("])}, "perturb: the buggy SQL has a syntax"),
        ({"Perturbed": lambda n, r: perturbed(n, r, issue_sql=["SELECT x"])}, "perturb: the issue fails to run"),
        ({"Perturbed": lambda n, r: perturbed(n, r, required=["magic"])}, "perturb: there is no feature 'magic'"),
        ({"Perturbed": lambda n, r: perturbed(n, r, issue_fails=True)}, "perturb: the issue runs, but should fail"),
        ({"Described": lambda n, r: {"query": "No."}}, "describe: the issue text has not"),
        ({"Verdict": lambda n, r: {"consistent": False, "reason": "Off topic"}}, "describe: not coherent: Off topic"),
    ],
)
def test_what_is_not_accepted_in_three_rounds_is_set_aside_with_its_reason(
    store: TemplateStore,
    posts: Path,
    tmp_path: Path,
    serve: Callable[..., Teacher],
    changes: dict[str, Any],
    reason: str,
) -> None:
    server = serve(**changes)
    gym = build_teacher_gym(store, params(server, posts, tmp_path / "cache"), seed=1)
    assert (gym.train, gym.evaluation) == ([], [])
    assert len(gym.quarantine) == 5
    assert all(row["reason"].startswith(reason) for row in gym.quarantine), gym.quarantine[0]
    assert sum(gym.reasons.values()) == 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Adapted": lambda n, r: {"sql": [HANGS], "task": "t"}}, "adapt: the SQL does not run: killed after 1.5 s"),
        ({"Perturbed": lambda n, r: perturbed(n, r, issue_sql=[HANGS])}, "perturb: the buggy SQL takes too long"),
    ],
)
def test_sql_that_hangs_is_killed(
    store: TemplateStore,
    posts: Path,
    tmp_path: Path,
    serve: Callable[..., Teacher],
    changes: dict[str, Any],
    reason: str,
) -> None:
    posts.write_text(posts.read_text().splitlines()[0])
    server = serve(**changes)
    teacher = {"rounds": 1, "databases_per_post": 1}
    limits = {"eval_instances": 0, "eval_databases": [], "statement_timeout_s": 0.1}
    gym = build_teacher_gym(store, params(server, posts, tmp_path / "cache", teacher=teacher, **limits), seed=1)
    assert gym.train == []
    assert gym.quarantine[0]["reason"].startswith(reason), gym.quarantine[0]["reason"]


def test_nearly_the_same_issue_is_made_once(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    server = serve(Described=lambda n, r: {"query": f"My list shows a product with a stock of exactly {n} too many."})
    wanted = params(server, posts, tmp_path / "cache", train_instances=5, eval_instances=0, near_text=0.5, near_sql=0.5)
    gym = build_teacher_gym(store, wanted, seed=1)
    assert gym.evaluation == []
    assert gym.reasons["near-duplicate"] == 5 - len(gym.train) > 0


def test_sql_that_changes_data_is_tested_by_its_state(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    def update(number: int, sign: str) -> list[str]:
        return [f"UPDATE product SET weight = 0 WHERE stock {sign} {number}"]

    probes = ["SELECT product_id, weight FROM product"]
    server = serve(
        Adapted=lambda n, r: {"sql": update(n, ">"), "task": "t"},
        Perturbed=lambda n, r: perturbed(n, r, issue_sql=update(n, ">="), probes=probes if r > 1 else []),
    )
    gym = build_teacher_gym(store, params(server, posts, tmp_path / "cache"), seed=1)
    assert {instance.category for instance in (*gym.train, *gym.evaluation)} == {"management"}
    assert all(isinstance(test, StateTest) for instance in gym.train for test in instance.test_cases)
    told = [body["messages"][-1]["content"] for body in server.requests]
    assert any("needs `probes`" in text for text in told)


def test_a_wish_about_the_form_is_a_feature_test(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    server = serve(Perturbed=lambda n, r: perturbed(n, r, forbidden=["subquery"] if r > 1 else []))
    wanted = params(server, posts, tmp_path / "cache", shares={"personalization": 1.0})
    gym = build_teacher_gym(store, wanted, seed=1)
    assert {instance.category for instance in gym.train} == {"personalization"}
    assert all(any(isinstance(test, FeatureTest) for test in instance.test_cases) for instance in gym.train)


def test_the_budget_ends_a_run_with_what_is_there(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    server = serve()
    budget = {"budget_tokens": 70}  # one post costs 40
    gym = build_teacher_gym(store, params(server, posts, tmp_path / "cache", endpoint=budget), seed=1)
    assert len(gym.train) + len(gym.evaluation) == 1
    assert gym.reasons["teacher: endpoint.budget_tokens is used up"] > 0
    assert len(server.requests) == 7
    more = build_teacher_gym(store, params(server, posts, tmp_path / "cache"), seed=1)
    assert (len(more.train), len(more.evaluation)) == (3, 1)
    assert len(server.requests) == 16, "what was paid for is not asked again"


def test_excluded_posts_are_never_shown_to_the_model(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    server = serve()
    (tmp_path / "ids.txt").write_text("3\n5\n8\n")
    gym = build_teacher_gym(
        store, params(server, posts, tmp_path / "cache", exclude_posts=str(tmp_path / "ids.txt")), seed=1
    )
    assert gym.reasons["post: on the exclusion list"] == 3
    told = json.dumps(server.requests)
    assert not any(f"Title {number}" in told for number in (3, 5, 8))


def test_wrong_input_is_told_before_anything_is_asked(
    store: TemplateStore, posts: Path, tmp_path: Path, serve: Callable[..., Teacher]
) -> None:
    server = serve()
    with pytest.raises(InputError, match=r"gym\.posts: empty"):
        build_teacher_gym(store, params(server, posts, tmp_path / "cache").model_copy(update={"posts": []}), 1)
    with pytest.raises(InputError, match=r"no usable post in .*: post: none of the tags \(5\)"):
        build_teacher_gym(store, params(server, posts, tmp_path / "c", teacher={"tags": ["cooking"]}), seed=1)
    assert server.requests == []


def test_the_command_builds_with_a_teacher(
    store: TemplateStore,
    posts: Path,
    tmp_path: Path,
    serve: Callable[..., Teacher],
    capfd: pytest.CaptureFixture[str],
) -> None:
    server, databases = serve(), tmp_path / "databases"
    for db_id in store.db_ids:
        (databases / db_id).mkdir(parents=True)
        (databases / db_id / f"{db_id}.sqlite").write_bytes(store.path(db_id).read_bytes())
    endpoint = f"{{url: {server.url}, model: m, retries: 0, cache: {tmp_path / 'cache'}}}"
    words = ["gym", "build", "--databases", str(databases), "--out", str(tmp_path / "mine"), "--instances", "3"]
    words += ["--set", "rewinder=teacher", "--set", f"posts=[{posts}]", "--set", f"teacher={{endpoint: {endpoint}}}"]
    assert main([*words, "--set", "shares={query: 1}"]) == 0
    assert "3 issues on" in capfd.readouterr().out
    assert len(read_instances(tmp_path / "mine" / "train.jsonl")) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"databases", "cache", "mine", "posts.jsonl"}

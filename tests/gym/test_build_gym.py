"""The build over databases: split, sizes, determinism, what is written."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from rewind_store import make_store

from birdrl.errors import InputError
from birdrl.files import read_json, read_jsonl
from birdrl.gym import build
from birdrl.gym.build import build_gym, split_databases
from birdrl.gym.build_steps import Made
from birdrl.gym.instance import read_instances
from birdrl.gym.near import NearDuplicates
from birdrl.gym.rewind import KINDS
from birdrl.params import GymParams, load_params
from birdrl.stages import gym as gym_stage
from birdrl.stages.registry import StageContext

SHOPS = ("shop_a", "shop_b", "shop_c")
QUERIES = [
    "SELECT product_name FROM product WHERE stock > 5",
    "SELECT category, COUNT(*) FROM product WHERE stock > 0 GROUP BY category ORDER BY COUNT(*) DESC, category LIMIT 2",
    "SELECT p.price, s.quantity FROM product AS p JOIN sale AS s ON s.product_id = p.product_id WHERE channel = 'web'",
    "SELECT DISTINCT channel FROM sale WHERE quantity >= 4 AND channel <> 'phone'",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """artifacts/<profile> with a templates output of three shops, and a file of gold SQL."""
    root = tmp_path_factory.mktemp("artifacts")
    make_store(root / "templates", SHOPS)
    rows = [{"db_id": db_id, "question": "?", "query": sql} for db_id in SHOPS for sql in QUERIES]
    (root / "gold.json").write_text(json.dumps(rows))
    return root


def params(root: Path, **changes) -> GymParams:
    values = {
        "train_instances": 16,
        "eval_instances": 8,
        "eval_databases": ["shop_b"],
        "gold_sql": [str(root / "gold.json")],
        "workers": 1,
    }
    return GymParams.model_validate({**values, **changes})


def store(root: Path):
    return build.TemplateStore(root / "templates")


@pytest.fixture(scope="module")
def gym(root):
    return build_gym(store(root), params(root), seed=3)


def test_sizes_and_split_are_as_asked(gym):
    assert (len(gym.train), len(gym.evaluation)) == (16, 8)
    assert {i.db_id for i in gym.train} == {"shop_a", "shop_c"}
    assert {i.db_id for i in gym.evaluation} == {"shop_b"}
    assert Counter(i.db_id for i in gym.train) == {"shop_a": 8, "shop_c": 8}


def test_categories_follow_the_shares(gym):
    assert Counter(i.category for i in gym.evaluation) == {"query": 5, "management": 2, "personalization": 1}


def test_categories_have_the_shares_of_the_whole_gym_not_of_each_database(root):
    """Fourteen databases with 5,000 issues would each round the paper's 1,087 and 819 the same way."""
    totals: Counter[str] = Counter()

    class Willing:
        """A crew whose databases give whatever is asked."""

        def run(self, jobs, work):
            for job in jobs:
                work(self.make, job)

        def make(self, _step, _db_id, _number, quota):
            totals.update(quota)
            return Made(sum(quota.values()), exhausted=False)

    databases = [build._Database(f"db_{number:02}") for number in range(14)]
    wanted = params(root, shares={"query": 3_094, "management": 1_087, "personalization": 819})
    build._fill(Willing(), [(databases, 5_000)], wanted, lambda phase, done: None)
    assert totals == {"query": 3_094, "management": 1_087, "personalization": 819}


@pytest.mark.parametrize("seed", range(20))
def test_any_piece_of_a_proportional_sequence_is_in_proportion(seed):
    rng = Random(seed)
    weights = [rng.random() ** 3 for _ in range(3)]
    given = [0, 0, 0]
    for number, index in enumerate(build.in_proportion(400, weights), 1):
        given[index] += 1
        assert all(abs(number * w / sum(weights) - g) < 1 for w, g in zip(weights, given, strict=True))
    assert sum(given) == 400


def test_shares_of_nothing_are_refused():
    with pytest.raises(InputError, match=r"gym\.shares"):
        next(build.in_proportion(5, [0.0, 0.0, 0.0]))


def test_ids_are_unique_and_sources_recorded(gym):
    instances = [*gym.train, *gym.evaluation]
    assert len({i.instance_id for i in instances}) == len(instances)
    assert gym.train[0].instance_id == "gym_shop_a_0"
    sources = {i.source["verified_sql"] for i in instances}
    assert any(source.startswith("gold.json#") for source in sources)


def test_result_depends_on_the_seed_and_not_on_scheduling(root, gym):
    rows = [i.row() for i in (*gym.train, *gym.evaluation)]
    several = build_gym(store(root), params(root, workers=2), seed=3)
    assert [i.row() for i in (*several.train, *several.evaluation)] == rows
    assert several.quarantine == gym.quarantine
    assert several.reasons == gym.reasons
    other = build_gym(store(root), params(root), seed=4)
    assert [i.row() for i in (*other.train, *other.evaluation)] != rows


def test_kinds_can_be_chosen(root):
    kinds = ["update_all_rows", "delete_wrong_rows", "wrong_limit"]
    some = build_gym(store(root), params(root, kinds=kinds), seed=3)
    assert {i.bug.kind for i in (*some.train, *some.evaluation)} <= set(kinds)
    assert some.train
    with pytest.raises(InputError, match=r"gym\.kinds: no bug kind wrong_limmit; there are .*wrong_limit"):
        build_gym(store(root), params(root, kinds=["wrong_limmit"]), seed=3)


def test_a_database_that_runs_dry_is_made_up_for(root):
    """Gold SQL for shop_a only, and only mutations: shop_c can give nothing, so shop_a gives all."""
    gold = root / "one.json"
    rows = [{"db_id": "shop_a", "query": sql} for sql in QUERIES] + [
        {"db_id": "shop_b", "query": sql} for sql in QUERIES
    ] + [{"db_id": "shop_c", "query": "SELECT COUNT(*) FROM sale"}]  # fmt: skip
    gold.write_text(json.dumps(rows))
    mutations = [name for name, kind in KINDS.items() if kind.mutate]
    wanted = params(root, gold_sql=[str(gold)], train_instances=6, eval_instances=2, kinds=mutations)
    built = build_gym(store(root), wanted, seed=0)
    assert Counter(i.db_id for i in built.train) == {"shop_a": 6}


@pytest.mark.parametrize(
    ("db_ids", "changes", "message"),
    [
        (["a", "b"], {"eval_databases": ["z"]}, "gym.eval_databases: no usable database z"),
        (["a", "b"], {"eval_databases": ["a", "b"]}, "cannot be split"),
        (["a"], {"eval_databases": []}, "cannot be split"),
    ],
)
def test_impossible_splits_name_the_parameter(db_ids, changes, message):
    with pytest.raises(InputError, match=message):
        split_databases(db_ids, GymParams(train_instances=1, eval_instances=1, **changes), 0)


def test_seeded_split_holds_out_the_share():
    db_ids = [f"db{n}" for n in range(10)]
    wanted = GymParams(train_instances=1, eval_instances=1, eval_share=0.3)
    train, held_out = split_databases(db_ids, wanted, 1)
    assert (len(train), len(held_out)) == (7, 3)
    assert (train, held_out) == split_databases(list(reversed(db_ids)), wanted, 1)
    assert held_out != split_databases(db_ids, wanted, 2)[1]


def test_gold_without_usable_queries_is_an_input_error(root):
    gold = root / "none.json"
    gold.write_text(json.dumps([{"db_id": "elsewhere", "query": "SELECT 1"}]))
    with pytest.raises(InputError, match=r"no usable query in .*none.json; refused: .*none.json, row 1: unknown"):
        build_gym(store(root), params(root, gold_sql=[str(gold)]), seed=0)


def run_stage(root: Path, out: Path, **changes) -> None:
    out.mkdir()
    overrides = {f"gym.{key}": value for key, value in params(root, **changes).model_dump().items()}
    gym_stage.run(StageContext("gym", load_params("smoke", overrides), root, out, out / "work"))


def test_stage_writes_the_gym_and_its_statistics(root, tmp_path):
    out = tmp_path / "gym"
    run_stage(root, out)
    train, evaluation = read_instances(out / "train.jsonl"), read_instances(out / "eval.jsonl")
    assert (len(train), len(evaluation)) == (16, 8)
    stats = read_json(out / "stats.json")
    assert stats["shortfall"] == {"train": 0, "eval": 0}
    assert stats["all"]["instances"] == 24
    assert sum(stats["all"]["by_kind"].values()) == 24
    assert stats["all"]["distinct_test_cases"] <= stats["all"]["test_cases"]
    assert stats["all"]["features"]["select"] > 0
    for counts in (stats["all"]["by_kind"], stats["all"]["features"], stats["rejections"]):
        assert list(counts.values()) == sorted(counts.values(), reverse=True), "what is most frequent comes first"
    assert list(stats["all"]["lengths_by_category"]) == ["query", "management", "personalization", "overall"]
    assert stats["paper_table_7"]["instances"] == sum(stats["paper_table_7"]["by_category"].values())
    rows = list(read_jsonl(out / "quarantine.jsonl"))
    assert all(row["reason"] for row in rows)
    assert len(rows) + stats["rejections"].get("duplicate", 0) == stats["rejected"]


def test_stage_writes_the_same_bytes_again(root, tmp_path):
    for name in ("first", "second"):
        run_stage(root, tmp_path / name)
    for file in ("train.jsonl", "eval.jsonl", "quarantine.jsonl", "stats.json"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_shortfall_is_told_and_recorded(root, tmp_path, capsys):
    run_stage(root, tmp_path / "gym", train_instances=500, kinds=["comparison_boundary", "wrong_limit"])
    stats = read_json(tmp_path / "gym" / "stats.json")
    assert 0 < stats["train"]["instances"] < 500
    assert stats["shortfall"]["train"] == 500 - stats["train"]["instances"]
    assert "WARN gym.train_instances: 500 wanted" in capsys.readouterr().err


def test_nothing_at_all_is_an_error(root, tmp_path):
    with pytest.raises(InputError, match="not one train instance"):  # no query has a BETWEEN
        run_stage(root, tmp_path / "gym", kinds=["range_bound"])


def test_an_unknown_kind_is_an_input_error(root):
    with pytest.raises(InputError, match=r"gym\.kinds: no bug kind jions; there are .*families are aggregation"):
        build_gym(store(root), params(root, kinds=["jions"]), seed=0)


def test_without_evaluation_every_database_trains(root):
    built = build_gym(store(root), params(root, eval_instances=0, eval_databases=[], train_instances=9), seed=0)
    assert built.evaluation == []
    assert {i.db_id for i in built.train} == set(SHOPS)


def test_rates_put_scenes_around_issues(root):
    rates = {"preprocess": 0.7, "clean_up": 0.2, "multi_sql": 0.1}
    wanted = params(root, train_instances=40, eval_instances=0, eval_databases=[], rates=rates, max_sql_chars=900)
    train = build_gym(store(root), wanted, seed=0).train
    assert len(train) == 40
    assert sum(len(i.preprocess_sql) for i in train) >= 0.6 * 40
    assert sum(len(i.clean_up_sql) for i in train) >= 0.15 * 40
    assert sum(len(i.sol_sql) > 1 or len(i.issue_sql) > 1 for i in train) >= 3


def test_no_two_issues_of_a_database_are_nearly_the_same(gym):
    for db_id in SHOPS:
        known = NearDuplicates(0.85, 0.90)
        for instance in (i for i in (*gym.train, *gym.evaluation) if i.db_id == db_id):
            assert known.find(instance.query, instance.issue_sql, instance.sol_sql) is None
            known.add(instance.query, instance.issue_sql, instance.sol_sql)


SHARED = Path(os.environ.get("BIRDRL_SHARED_DATA", "../shared/data"))


@pytest.mark.slow
def test_spider_gives_a_gym_over_many_databases(tmp_path):
    """Real databases with real gold SQL: 300 gated issues over at least 15 databases."""
    if not (SHARED / "spider" / "dev.json").is_file():
        pytest.skip(f"no Spider data at {SHARED / 'spider'}; set BIRDRL_SHARED_DATA")
    from birdrl.stages import templates

    spider = SHARED / "spider"
    wanted = {row["db_id"] for row in json.loads((spider / "dev.json").read_text())}
    skip = [folder.name for folder in (spider / "database").iterdir() if folder.name not in wanted]
    overrides = {
        "templates.source": "directory", "templates.directory": str(spider / "database"), "templates.skip": skip,
        "gym.gold_sql": [str(spider / "dev.json")], "gym.train_instances": 220, "gym.eval_instances": 80,
    }  # fmt: skip
    loaded = load_params("smoke", overrides)
    for name, stage in (("templates", templates), ("gym", gym_stage)):
        (tmp_path / name).mkdir()
        stage.run(StageContext(name, loaded, tmp_path, tmp_path / name, tmp_path / "work"))
    train, evaluation = read_instances(tmp_path / "gym/train.jsonl"), read_instances(tmp_path / "gym/eval.jsonl")
    assert len(train) + len(evaluation) == 300
    assert len({i.db_id for i in (*train, *evaluation)}) >= 15
    assert not {i.db_id for i in train} & {i.db_id for i in evaluation}

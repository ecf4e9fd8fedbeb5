"""The two stages: files in the order of the instances, the same bytes every time, reasons for what is left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, BROKEN, UPDATE

from birdrl.errors import QualityError
from birdrl.files import read_json, read_jsonl, write_jsonl
from birdrl.params import load_params
from birdrl.stages.distill import choose, run_reasoning, run_trajectories
from birdrl.stages.registry import StageContext


@pytest.fixture
def distill(tmp_path: Path, store):
    shutil.copytree(store.folder, tmp_path / "templates")
    (tmp_path / "quality").mkdir()

    def call(name: str, instances: list, out_name: str = "out") -> Path:
        write_jsonl(tmp_path / "audit" / "train.jsonl", [instance.row() for instance in instances])
        out = tmp_path / out_name
        out.mkdir()
        function = run_reasoning if name == "distill_reasoning" else run_trajectories
        function(StageContext(name, load_params("smoke"), tmp_path, out, tmp_path / "work"))
        return out

    return call


@pytest.mark.parametrize(
    ("name", "file"), [("distill_reasoning", "pairs.jsonl"), ("distill_trajectories", "trajectories.jsonl")]
)
def test_rows_in_order_reasons_and_the_same_bytes(distill, name, file):
    instances = [UPDATE, BAD_GOLD, BOUNDARY, BROKEN]
    out = distill(name, instances)
    assert [row["instance_id"] for row in read_jsonl(out / file)] == ["update", "boundary", "broken"]
    (rejected,) = read_jsonl(out / "rejected.jsonl")
    assert rejected["instance_id"] == "bad_gold"
    stats = read_json(out / "stats.json")
    assert (stats["accepted"], stats["rejected"]) == (3, 1)
    assert stats["by_category"] == {"management": 1, "query": 2}
    again = distill(name, instances, "again")
    for path in sorted(out.iterdir()):
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_no_sample_at_all_stops_the_run(distill):
    with pytest.raises(QualityError, match=r"none of 1 instances.*bad_gold"):
        distill("distill_reasoning", [BAD_GOLD])


def test_the_limit_is_a_seeded_choice_in_order():
    instances = [BOUNDARY.model_copy(update={"instance_id": str(number)}) for number in range(50)]
    chosen = choose(instances, 10, "seed")
    assert chosen == choose(instances, 10, "seed")
    assert chosen != choose(instances, 10, "other")
    assert [int(i.instance_id) for i in chosen] == sorted(int(i.instance_id) for i in chosen)
    assert choose(instances, None, "seed") == instances

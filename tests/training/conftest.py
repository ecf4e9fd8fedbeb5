"""A nano policy, the shop's templates and audited instances, laid out as the stages' outputs are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toy_shop import BOUNDARY, BROKEN, UPDATE, build_store

from birdrl.files import write_jsonl
from birdrl.params import Params, validate_params
from training.layout import PARAMS


@pytest.fixture(scope="session")
def params() -> Params:
    return validate_params(PARAMS, "test")


@pytest.fixture(scope="session")
def tokenizer(nano_folder: Path) -> Any:
    from birdrl.training.policy import load_tokenizer

    return load_tokenizer(nano_folder)


@pytest.fixture
def stage_root(tmp_path: Path, nano_folder: Path) -> Path:
    """`artifacts/test` with every output that a training stage may read."""
    root = tmp_path / "artifacts" / "test"
    (root / "templates").mkdir(parents=True)
    build_store(root / "templates")
    write_jsonl(root / "audit" / "train.jsonl", [i.row() for i in (BOUNDARY, BROKEN, UPDATE)])
    for stage in ("policy_init", "sft_reasoning", "sft_tools", "rl_reasoning"):
        (root / stage).mkdir()
        (root / stage / "model").symlink_to(nano_folder)
    prompt = [{"role": "system", "content": "Repair the SQL."}, {"role": "user", "content": "SELECT idd FROM orders"}]
    answer = {"role": "assistant", "content": "The column is misspelt.\n```sql\nSELECT id FROM orders\n```"}
    pairs = [{"instance_id": f"i{n}", "messages": [*prompt, answer]} for n in range(13)]
    write_jsonl(root / "distill_reasoning" / "pairs.jsonl", pairs)
    return root

"""A made-up profile with the output of every stage that the report reads, in the shape the stages write it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from birdrl.params import load_params
from birdrl.stages.registry import STAGES, StageContext

KINDS = {
    "query": ("comparison_boundary", "missing_group_by", "wrong_join_column"),
    "management": ("update_without_where", "missing_upsert_target"),
    "personalization": ("percent_as_integer", "wrong_date_format"),
}
SHARES = {"policy_init": 0, "sft_reasoning": 66, "sft_tools": 71, "rl_reasoning": 72, "rl_agentic": 75}


def wilson(successes: int, n: int) -> list[float]:
    z, share = 1.96, successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return [round(max(0.0, middle - half), 6), round(min(1.0, middle + half), 6)]


def rate(successes: int, n: int) -> dict[str, Any]:
    return {"n": n, "instances": n, "success": round(successes / n, 6), "interval": wilson(successes, n)}


@pytest.fixture
def results() -> dict[str, Any]:
    """evaluate/results.json of 120 held-out instances; policies out of order, as a dictionary may give them."""
    policies = []
    for name, wins in reversed(SHARES.items()):
        split = {
            "query": (wins * 45 // 75, 74),
            "management": (wins * 17 // 75, 26),
            "personalization": (wins * 13 // 75, 20),
        }
        policies.append(
            {
                "policy": name,
                "protocol": "reasoning" if name in ("policy_init", "sft_reasoning") else "agentic",
                **rate(sum(w for w, _ in split.values()), 120),
                "by_category": {category: rate(*pair) for category, pair in split.items()},
                "by_kind": {"comparison_boundary": rate(14, 20), "update_without_where": rate(2, 8)},
                "mean_reward": round(wins / 110, 6),
                "mean_turns": 1.0 if name in ("policy_init", "sft_reasoning") else 2.375,
                "tool_errors": 0 if name in ("policy_init", "sft_reasoning") else 90 - wins,
                "stop_reasons": {"answered": 110, "token_limit": 10}
                if wins < 67
                else {"submitted": 112, "max_turns": 8},
                "excluded": {"gold": 1} if name == "rl_agentic" else {},
            }
        )
    return {
        "policies": policies,
        "prompts": {"compact/reasoning_system.txt": "ab" * 32, "compact/agentic_system.txt": "cd" * 32},
        "chat_template_sha256": "ef" * 32,
    }


@pytest.fixture
def context(tmp_path: Path, results: dict[str, Any]) -> Callable[[], StageContext]:
    """Writes the profile folder and returns the context of the report stage; call it again for a second `out`."""
    root = tmp_path / "artifacts" / "test"
    _write_data(root)
    _write_training(root)
    _json(root / "evaluate" / "results.json", results)
    params = load_params("demo", path=Path(__file__).parents[2] / "params.yaml")
    visible = params.model_copy()
    for section in type(params).model_fields.keys() - set(STAGES["report"].sections):
        del visible.__dict__[section]
    runs: list[StageContext] = []

    def build() -> StageContext:
        out = root / f".report{len(runs)}.part"
        out.mkdir()
        runs.append(StageContext("report", visible, root, out, root / "work" / "report"))
        return runs[-1]

    return build


def _json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _instance(side: str, number: int, db_id: str) -> dict[str, Any]:
    return {
        "instance_id": f"{side}_{number:04d}",
        "db_id": db_id,
        "query": f"The list of the {number} largest orders leaves out the last one | please include it & <fix> it.",
        "issue_sql": [f"SELECT id FROM orders WHERE amount > {number}"],
    }


def _stats(total: int, db_ids: tuple[str, ...]) -> dict[str, Any]:
    lengths = {"tokens": {"mean": 26.6, "median": 24.0, "max": 91.0}, "histogram": {"0": total // 2, "25": total // 2}}
    parts = dict.fromkeys(("query", "issue_sql", "sol_sql", "tests"), lengths["tokens"])
    groups = ("query", "management", "personalization", "overall")
    return {
        "instances": total,
        "by_category": {"query": total * 6 // 10, "management": total * 2 // 10, "personalization": total * 2 // 10},
        "by_kind": {kind: total // 7 for kinds in KINDS.values() for kind in kinds},
        "by_database": {db_id: total // len(db_ids) for db_id in db_ids},
        "features": {"join": total // 3, "window": total // 20},
        "distinct_test_cases": total + 41,
        "preprocess_sql": total // 4,
        "clean_up_sql": total // 9,
        "multi_sql_instances": total // 8,
        "domains": len(db_ids),
        "lengths": {"query": lengths, "issue_sql": lengths},
        "lengths_by_category": dict.fromkeys(groups, parts),
        "text": {
            "distinct_texts": 1.0,
            "distinct_wordings": 0.914,
            "solution_tokens": 0.21,
            "solution_runs": 0.034,
            "leaks": 0,
        },
    }


def _write_data(root: Path) -> None:
    train, held_out = ("hotel", "library", "logistics", "school"), ("clinic", "theatre")
    _json(
        root / "templates" / "manifest.json",
        {db: {"sha256": f"{n:064x}", "tables": 5 + n, "rows": 1000 * (n + 1)} for n, db in enumerate(train + held_out)},
    )
    _json(
        root / "gym" / "stats.json",
        {
            "train": _stats(410, train),
            "eval": _stats(120, held_out),
            "paper_table_7": {
                "instances": 5000, "by_category": {"query": 3094, "management": 1087, "personalization": 819},
                "distinct_test_cases": 2477, "preprocess_sql": 3512, "clean_up_sql": 969, "multi_sql_instances": 454,
                "domains": 13,
            },
            "rejections": {"the issue passes all tests": 31, "the solution's result is empty": 12, "runs differ": 3},
        },
    )  # fmt: skip
    pair = {"text_similarity": 0.8123, "sql_similarity": 0.7311, "flagged": False}
    sides = {"train": _instance("train", 3, "hotel"), "eval": _instance("eval", 3, "clinic")}
    counts = dict.fromkeys(
        ("database_overlap", "template_overlap", "source_overlap", "exact_issue_text", "exact_issue_sql", "exact_joint",
         "near_duplicate_pairs", "flagged_train", "pairs_above_text_threshold"), 0,
    )  # fmt: skip
    counts |= {
        "pairs": 48000,
        "kept_train": 400,
        "eval_instances": 120,
        "exact_solution_sql": 2,
        "pairs_above_sql_threshold": 31,
    }
    _json(
        root / "audit" / "report.json",
        {"counts": counts, "thresholds": {"text": 0.85, "sql": 0.9}, "closest": [{**pair, **sides}]},
    )
    suites = [
        {"name": "train", "hard": True, "rows": 400, "success": True, "expectations": 18, "failed": []},
        {"name": "eval", "hard": True, "rows": 120, "success": True, "expectations": 18, "failed": []},
        {"name": "shares", "hard": False, "rows": 3, "success": False, "expectations": 1,
         "failed": [{"expectation": "e", "column": "difference", "observed": "1 of 3 rows", "rows": []}]},
    ]  # fmt: skip
    _json(root / "quality" / "summary.json", {"success": True, "suites": suites})
    _json(root / "quality_trajectories" / "summary.json", {"success": True, "suites": []})
    _json(root / "distill_reasoning" / "stats.json", {"accepted": 391, "rejected": 9, "by_turns": {"1": 391}})
    _json(
        root / "distill_trajectories" / "stats.json", {"accepted": 238, "rejected": 2, "by_turns": {"2": 150, "3": 88}}
    )
    _json(
        root / "policy_init" / "policy.json",
        {"source": "smollm2", "parameters": 134515008, "tokenizer_sha256": "1" * 64},
    )


def _write_training(root: Path) -> None:
    for stage, steps in (("sft_reasoning", 180), ("sft_tools", 30)):
        losses = [
            3.1 * math.exp(-step / (steps / 4)) + 0.2 + 0.05 * math.sin(step * 1.7) for step in range(1, steps + 1)
        ]
        rows = [{"step": step, "train/loss": loss, "train/lr": 2e-4} for step, loss in enumerate(losses, 1)]
        rows[-1]["val/loss"] = 0.31
        _jsonl(root / stage / "metrics.jsonl", rows)
        _json(root / stage / "summary.json", {"steps": steps, "samples": steps * 8, "tokens_per_second": 251.37})
    # Flat rows are what our training stages write, rows nested under "data" what the engine's own file logger does.
    flat = [{"step": n, "reward": 0.55 + 0.02 * n, "kl": 2e-4 * n, "loss": 0.01} for n in range(1, 7)]
    for row in flat:
        row |= {"rollout/failures/infra": 0.0, "rollout/failures/gold": row["step"] % 2}
    _jsonl(root / "rl_reasoning" / "metrics.jsonl", flat)
    nested = [{"step": n, "data": {"critic/score/mean": 0.6, "actor/entropy": 0.3}} for n in range(1, 7)]
    _jsonl(root / "rl_agentic" / "metrics.jsonl", nested)
    for stage in ("rl_reasoning", "rl_agentic"):
        _json(root / stage / "summary.json", {"steps": 6, "trajectories": 96})

"""The report's content, section by section, from its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from birdrl.report import curves as c
from birdrl.report.document import Block, Code, Details, Document, Figure, Heading, Paragraph, Section, Table, Tiles
from birdrl.report.gym_plots import plot_domains, plot_features, plot_lengths, plot_shape
from birdrl.report.gym_table import counts_table, table_7, table_8, texts_table
from birdrl.report.inputs import ReportInputs
from birdrl.report.labels import MISSING, POLICIES, interval, number, ordered_policies, percent
from birdrl.report.plots import plot_categories, plot_curves, plot_success
from birdrl.report.table import results_table

SFT = ("sft_reasoning", "sft_tools")
RL = ("rl_reasoning", "rl_agentic")
SHOWN_REASONS = 12
SHOWN_PAIRS = 3


@dataclass(frozen=True)
class Page:
    """The document and the PNG files it refers to, by path relative to the page."""

    document: Document
    plots: Mapping[str, bytes]


def build_page(inputs: ReportInputs) -> Page:
    """Lay out the report. The same inputs give the same page."""
    plots = {
        "plots/success.png": plot_success(inputs.results),
        "plots/categories.png": plot_categories(inputs.results),
        "plots/training.png": plot_curves(_panels(inputs)),
        "plots/gym_shape.png": plot_shape(inputs.gym["train"]),
        "plots/gym_lengths.png": plot_lengths(inputs.gym["train"]),
        "plots/gym_features.png": plot_features(inputs.gym["train"]),
        "plots/gym_domains.png": plot_domains(inputs.gym["train"]),
    }
    sections = [
        Section("Success", "success", _success(inputs, plots)),
        Section("Training", "training", _training(inputs, plots)),
        Section("Gym", "gym", _gym(inputs, plots)),
        Section("Contamination audit", "audit", _audit(inputs.audit)),
        Section("Data quality", "quality", _quality(inputs.quality)),
        Section("What does not count", "excluded", _excluded(inputs)),
        Section("To repeat this run", "repeat", _repeat(inputs)),
    ]
    subtitle = f"Profile {inputs.profile}, seed {inputs.seed}. {_where(inputs)}"
    return Page(Document(inputs.title, subtitle, _lead(inputs), sections), plots)


def _where(inputs: ReportInputs) -> str:
    held_out = ", ".join(sorted((inputs.gym.get("eval") or {}).get("by_database") or {})) or MISSING
    shared = inputs.audit["counts"]["database_overlap"]
    known = "never trained on" if shared == 0 else f"of which {shared} also occur in training"
    return f"Evaluated on databases {known}: {held_out}."


def _lead(inputs: ReportInputs) -> list[Block]:
    policies = {policy["policy"]: policy for policy in ordered_policies(inputs.results)}
    tiles = []
    for name, what in (
        ("policy_init", "success before training"),
        ("sft_tools", "after imitation (stages 1 and 2)"),
        ("rl_agentic", "after reinforcement learning (stages 3 and 4)"),
    ):
        policy = policies.get(name, {})
        span = f", 95\u00a0% interval {interval(policy['interval'])}" if policy.get("interval") else ""
        tiles.append((percent(policy.get("success")), what + span))
    counts = inputs.audit["counts"]
    sizes = f"{number(counts.get('kept_train'))} / {number(counts.get('eval_instances'))}"
    tiles.append((sizes, "issues for training / held out"))
    return [Tiles(tiles)]


def _success(inputs: ReportInputs, plots: Mapping[str, bytes]) -> list[Block]:
    blocks: list[Block] = [
        results_table(inputs.results),
        Figure(
            "plots/success.png", plots["plots/success.png"], "Success of each policy",
            "Success after each stage. Bars are Wilson 95 % intervals; where they overlap widely, a difference may be "
            "chance.",
        ),
        Figure(
            "plots/categories.png", plots["plots/categories.png"], "Success of each policy by issue category",
            "Success by issue category.",
        ),
    ]  # fmt: skip
    stops = sorted({stop for policy in inputs.results["policies"] for stop in policy.get("stop_reasons") or {}})
    if stops:
        policies = ordered_policies(inputs.results)
        rows = [
            [POLICIES.get(p["policy"], p["policy"]), *(number((p.get("stop_reasons") or {}).get(s, 0)) for s in stops)]
            for p in policies
        ]
        table = Table(["policy", *(stop.replace("_", " ").lower() for stop in stops)], rows, _right(1, len(stops)))
        blocks.append(Details("How trajectories ended", [table]))
    kinds = _by_kind(ordered_policies(inputs.results)[-1])
    if kinds.rows:
        blocks.append(Details("The last policy by bug kind", [kinds]))
    return blocks


def _by_kind(policy: Mapping[str, Any]) -> Table:
    entries = policy.get("by_kind") or {}
    rows = [
        [
            kind.replace("_", " "),
            number(entry.get("n")),
            percent(entry.get("success"), 0),
            interval(entry.get("interval"), 0),
        ]
        for kind, entry in sorted(entries.items())
    ]
    return Table(["bug kind", "n", "success", "95 % interval"], rows, _right(1, 3))


def _panels(inputs: ReportInputs) -> list[tuple[str, str, list[tuple[str, c.Curve]]]]:
    panels = []
    for stage in SFT:
        rows = inputs.metrics[stage]
        lines = [("training", c.curve(rows, c.LOSS)), ("validation", c.curve(rows, c.VALIDATION_LOSS))]
        panels.append((POLICIES[stage], "loss", lines))
    for names, label in ((c.REWARD, "reward, mean of a step"), (c.KL, "KL to the previous stage")):
        panels += [(POLICIES[stage], label, [(label, c.curve(inputs.metrics[stage], names))]) for stage in RL]
    return panels


def _training(inputs: ReportInputs, plots: Mapping[str, bytes]) -> list[Block]:
    rows = []
    for stage in (*SFT, *RL):
        metrics = inputs.metrics[stage]
        first_name = c.LOSS if stage in SFT else c.REWARD
        line, kl = c.curve(metrics, first_name), c.curve(metrics, c.KL)
        rows.append(
            [
                POLICIES[stage],
                number(len(metrics)) if metrics else MISSING,
                line.name or MISSING,
                number(line.values[0], 3) if line.values else MISSING,
                number(line.values[-1], 3) if line.values else MISSING,
                number(kl.values[-1], 4) if kl.values else ("" if stage in SFT else MISSING),
            ]
        )
    table = Table(["stage", "logged steps", "metric", "first", "last", "last KL"], rows, frozenset({1, 3, 4, 5}))
    figure = Figure(
        "plots/training.png", plots["plots/training.png"], "Loss, reward and KL over steps",
        "Imitation loss, mean reward of the rollouts of a step, and the KL term, as the engine logged them.",
    )  # fmt: skip
    details = [
        Details(f"All numbers of {POLICIES[stage]}", [_flat_table(inputs.summaries[stage])]) for stage in (*SFT, *RL)
    ]
    return [table, figure, *details]


def _gym(inputs: ReportInputs, plots: Mapping[str, bytes]) -> list[Block]:
    stats = inputs.gym
    databases = counts_table(stats, "by_database", "database")
    kinds = counts_table(stats, "by_kind", "bug kind")
    blocks: list[Block] = [
        table_7(stats),
        Figure(
            "plots/gym_shape.png",
            plots["plots/gym_shape.png"],
            "Categories, tests and statements beside the paper's",
            "Training issues beside the published gym (Table 7).",
        ),
        Details(
            "Lengths, SQL features and wording of the issues",
            [
                Figure(
                    "plots/gym_lengths.png",
                    plots["plots/gym_lengths.png"],
                    "Lengths beside the paper's",
                    "Tokens of each part beside the paper's Table 8.",
                ),
                table_8(stats),
                texts_table(stats),
                Figure(
                    "plots/gym_features.png",
                    plots["plots/gym_features.png"],
                    "SQL features of the solutions",
                    "SQL features of the training solutions (Figure 3; the published gym's shares are not known in "
                    "numbers).",
                ),
            ],
        ),
        Details(
            f"{len(databases.rows)} databases",
            [
                Figure(
                    "plots/gym_domains.png",
                    plots["plots/gym_domains.png"],
                    "Share of the training issues on each database",
                    "Training issues by database (Figure 3), beside the mean over the published gym's domains.",
                ),
                databases,
            ],
        ),
        Details(f"{len(kinds.rows)} bug kinds", [kinds]),
        Details("SQL features of the issues", [counts_table(stats, "features", "feature")]),
    ]
    reasons = list((stats.get("rejections") or {}).items())
    if reasons:
        shown = [[reason, number(count)] for reason, count in reasons[:SHOWN_REASONS]]
        if len(reasons) > SHOWN_REASONS:
            shown.append(["other reasons", number(sum(count for _, count in reasons[SHOWN_REASONS:]))])
        total = sum(count for _, count in reasons)
        blocks.append(
            Details(f"{total:,} drafts that a gate rejected", [Table(["reason", "drafts"], shown, _right(1, 1))])
        )
    blocks.append(Heading("Imitation data"))
    rows = [
        [
            name.replace("_", " "),
            number(stats.get("accepted")),
            number(stats.get("rejected")),
            _pairs(stats.get("by_turns")),
        ]
        for name, stats in inputs.distill.items()
    ]
    blocks.append(Table(["stage", "kept", "rejected", "assistant turns: samples"], rows, frozenset({1, 2})))
    return blocks


def _audit(report: Mapping[str, Any]) -> list[Block]:
    counts, thresholds = report["counts"], report.get("thresholds", {})
    labels = (
        ("database_overlap", "databases on both sides"),
        ("template_overlap", "template files on both sides"),
        ("schema_overlap", "schemas on both sides"),
        ("source_overlap", "sources on both sides"),
        ("exact_issue_text", "issue texts on both sides"),
        ("exact_issue_sql", "buggy SQL on both sides"),
        ("masked_issue_sql", "buggy SQL on both sides, constants aside"),
        ("exact_solution_sql", "solution SQL on both sides"),
        ("masked_solution_sql", "solution SQL on both sides, constants aside"),
        ("result_overlap", "results of solutions on both sides"),
        ("exact_joint", "issue text and buggy SQL together"),
        ("pairs", "pairs compared"),
        ("pairs_above_text_threshold", f"pairs with text similarity above {thresholds.get('text')}"),
        ("pairs_above_sql_threshold", f"pairs with SQL similarity above {thresholds.get('sql')}"),
        ("near_duplicate_pairs", "pairs above both (near duplicates)"),
        ("flagged_train", "training issues excluded"),
        ("kept_train", "training issues kept"),
    )
    blocks: list[Block] = [
        Paragraph(
            "Training against evaluation: exact overlaps first, then the similarity of all pairs in two views, issue "
            "text and buggy SQL. The paper finds 3 of 500 evaluation issues above both thresholds."
        ),
        Table(["overlap", "count"], [[label, number(counts.get(key))] for key, label in labels], _right(1, 1)),
    ]
    closest = report.get("closest", [])[:SHOWN_PAIRS]
    if closest:
        shown: list[Block] = []
        for pair in closest:
            shown.append(
                Paragraph(
                    f"{pair['train']['instance_id']} (training) and {pair['eval']['instance_id']} (evaluation): "
                    f"text {pair['text_similarity']:.3f}, SQL {pair['sql_similarity']:.3f}"
                )
            )
            shown += [
                Code(
                    f"-- {side}: {' '.join(pair[side]['query'].split())}\n" + "\n".join(pair[side]["issue_sql"]), "sql"
                )
                for side in ("train", "eval")
            ]
        blocks.append(Details("Closest pairs", shown))
    return blocks


def _quality(summary: Mapping[str, Any]) -> list[Block]:
    rows = []
    for suite in summary.get("suites", []):
        failed = suite.get("failed") or []
        state = (
            "holds" if suite.get("success") else ("failed" if suite.get("hard", True) else "advisory, does not hold")
        )
        broken = "; ".join(f"{f['column'] or 'table'}: {f['observed']}" for f in failed if isinstance(f, dict))
        rows.append(
            [suite["name"], state, number(suite.get("rows")), number(suite.get("expectations")), broken or "none"]
        )
    return [
        Paragraph(
            "Expectations over instances, templates, split and trajectories; the full pages are the Data Docs of the "
            "quality stages."
        ),
        Table(["suite", "result", "rows", "expectations", "broken"], rows, frozenset({2, 3})),
    ]


def _excluded(inputs: ReportInputs) -> list[Block]:
    rows = []
    for stage in RL:
        found = c.failures(inputs.summaries[stage]) or c.total_failures(inputs.metrics[stage])
        rows.append([POLICIES[stage], "rollouts", _pairs(found) or MISSING])
    for policy in ordered_policies(inputs.results):
        excluded = policy.get("excluded")
        shown = MISSING if excluded is None else (_pairs(excluded) or "none")
        rows.append([POLICIES.get(policy["policy"], policy["policy"]), "evaluation", shown])
    return [
        Paragraph(
            "A failure of the machinery (infra) or of a reference solution (gold) is never a zero reward: such samples "
            "leave their group and the means, and are counted here."
        ),
        Table(["policy", "where", "left out"], rows),
    ]


def _repeat(inputs: ReportInputs) -> list[Block]:
    hashes = [[name, digest] for name, digest in sorted((inputs.results.get("prompts") or {}).items())]
    for key in ("chat_template_sha256", "chat_template", "tokenizer_sha256", "tokenizer"):
        value = inputs.policy.get(key) or inputs.results.get(key)
        if isinstance(value, str):
            hashes.append([key.replace("_", " "), value])
    hashes += [[f"database {db_id}", str(entry.get("sha256"))] for db_id, entry in sorted(inputs.templates.items())]
    return [
        Table(["what", "value"], [["profile", inputs.profile], ["seed", str(inputs.seed)], *_flat(inputs.policy)[:12]]),
        Details("Hashes of prompts, chat template and databases", [Table(["file", "SHA-256"], hashes)]),
        Details("Parameters", [Code(json.dumps(inputs.params, indent=2, sort_keys=True, ensure_ascii=False), "json")]),
    ]


def _flat_table(values: Mapping[str, Any]) -> Table:
    return Table(["number", "value"], _flat(values), _right(1, 1))


def _flat(values: Mapping[str, Any]) -> list[list[str]]:
    return [[key.replace("_", " "), number(value, 4)] for key, value in sorted(values.items()) if _scalar(value)]


def _scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _pairs(counts: Mapping[str, Any] | None) -> str:
    shown = {key: int(v) if isinstance(v, float) and v.is_integer() else v for key, v in (counts or {}).items()}
    return ", ".join(f"{key}: {number(value)}" for key, value in shown.items())


def _right(first: int, last: int) -> frozenset[int]:
    return frozenset(range(first, last + 1))

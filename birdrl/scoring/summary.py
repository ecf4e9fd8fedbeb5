"""From rows of verdicts to the numbers of a report, each with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from statistics import fmean
from typing import Any

from birdrl.errors import InputError
from birdrl.evaluation.intervals import wilson
from birdrl.files import read_jsonl
from birdrl.scoring.metrics import mean_pass_rate, pass_at_k
from birdrl.scoring.r_ves import r_ves
from birdrl.scoring.significance import bootstrap_interval, mcnemar_exact

Row = Mapping[str, Any]


def summarise(rows: Sequence[Row], mode: str) -> dict[str, Any]:
    """`accuracy` is EX for instances without test cases and SR for those with; rows without a verdict are in no mean
    and are listed under `not_judged`. With trials, means are over all answers."""
    judged = [row for row in rows if row["verdict"] is not None]
    summary: dict[str, Any] = {
        "mode": mode,
        "answers": len(rows),
        "instances": len({row["id"] for row in rows}),
        **_rate(judged),
        "mean_pass_rate": _mean_with_interval([mean_pass_rate([(row["passed"], row["total"])]) for row in judged]),
        "by_group": {name: _rate(group) for name, group in _grouped(judged).items()},
        "statuses": dict(sorted(Counter(row["status"] for row in rows).items())),
        "not_measured": [row["id"] for row in rows if "not_measured" in row],
        "not_judged": [
            {"id": r["id"], "blame": r["blame"], "reason": r["reason"]} for r in rows if r["verdict"] is None
        ],
    }
    if any("strict" in row for row in judged):
        summary["strict"] = _rate([{**row, "verdict": row["strict"]} for row in judged if "strict" in row])
        summary["disagreements"] = [row["id"] for row in judged if row.get("disagree")]
    for name in ("soft_f1", "soft_f1_assigned", "suite"):
        values = [float(row[name]) for row in judged if row.get(name) is not None]
        if values:
            summary[name] = _mean_with_interval(values)
    rewards = [row["r_ves_reward"] for row in judged if row.get("r_ves_reward") is not None]
    if rewards:
        summary["r_ves"] = round(r_ves(rewards), 4)
    if any("trial" in row for row in rows):
        summary["trials"] = _trials(judged)
    return summary


def read_verdicts(path: Path, instances: Set[str]) -> Sequence[Row]:
    """The rows that an earlier run wrote. Raises InputError for a row that is none, and where none is about one of the
    instances."""
    rows = list(read_jsonl(path))
    for number, row in enumerate(rows, 1):
        if "id" not in row or row.get("verdict", "") not in (0, 1, None):
            raise InputError(f"{path}, row {number}: no verdict; expected a file that `birdrl score --out` wrote")
    if not any(row["id"] in instances for row in rows):
        raise InputError(f"{path}: holds no verdict on any of these instances; is it a run of the same benchmark?")
    return rows


def compare_runs(rows: Sequence[Row], others: Sequence[Row]) -> dict[str, Any]:
    """McNemar's exact test between two runs on the instances that both judged (first trials)."""
    ours, theirs = _first_verdicts(rows), _first_verdicts(others)
    both = [name for name in ours if name in theirs]
    only_first = sum(ours[name] > theirs[name] for name in both)
    only_second = sum(theirs[name] > ours[name] for name in both)
    return {
        "instances": len(both),
        "only_this_run": only_first,
        "only_other_run": only_second,
        "p_value": round(mcnemar_exact(only_first, only_second), 6),
    }


def text(summary: Mapping[str, Any]) -> str:
    """The summary for people."""
    lines = [f"mode {summary['mode']}: {_shown(summary)}"]
    if len(summary["by_group"]) > 1:
        lines += [f"  {name or 'without group'}: {_shown(rate)}" for name, rate in summary["by_group"].items()]
    if summary["mean_pass_rate"]["mean"] != summary["accuracy"]:
        lines.append(f"mean pass rate {_shown_mean(summary['mean_pass_rate'])}")
    if "strict" in summary:
        names = summary["disagreements"]
        lines.append(f"without the public evaluator's defects: {_shown(summary['strict'])}")
        lines.append(f"  the two disagree on {len(names)} instances" + (f": {', '.join(names[:20])}" if names else ""))
    lines += [
        f"{name} {_shown_mean(summary[name])}" for name in ("soft_f1", "soft_f1_assigned", "suite") if name in summary
    ]
    if "r_ves" in summary:
        lines.append(f"R-VES {summary['r_ves']:.2f}")
    if "trials" in summary:
        lines += _shown_trials(summary["trials"])
    lines.append("statuses: " + ", ".join(f"{count} {name}" for name, count in summary["statuses"].items()))
    if summary["not_measured"]:
        lines.append(f"no further metrics for {', '.join(summary['not_measured'])}: the machinery failed")
    for row in summary["not_judged"]:
        lines.append(f"not judged ({row['blame']}): {row['id']}: {row['reason']}")
    if "against" in summary:
        test = summary["against"]
        lines.append(
            f"against the other run, {test['instances']} instances: only this one right {test['only_this_run']}, only "
            f"the other {test['only_other_run']}, McNemar exact p = {test['p_value']:.4g}"
        )
    return "\n".join(lines)


def _trials(rows: Sequence[Row]) -> dict[str, Any]:
    """Mean over trials, pass@k at powers of two up to the fewest answers of an instance, and the vote; over the answers
    that were judged."""
    by_instance: dict[str, list[Row]] = {}
    for row in rows:
        by_instance.setdefault(row["id"], []).append(row)
    counts = [(len(group), sum(row["verdict"] for row in group)) for group in by_instance.values()]
    fewest, most = min((n for n, _ in counts), default=0), max((n for n, _ in counts), default=0)
    found: dict[str, Any] = {"answers per instance": fewest, "most answers per instance": most}
    if fewest:
        found["mean of trials"] = fmean(c / n for n, c in counts)
        k = 1
        while k <= fewest:
            found[f"pass@{k}"] = fmean(pass_at_k(n, c, k) for n, c in counts)
            k *= 2
        votes = [row["verdict"] for row in rows if row.get("voted")]
        found["majority vote"] = float(fmean(votes)) if votes else None
    return found


def _first_verdicts(rows: Sequence[Row]) -> dict[str, int]:
    return {row["id"]: row["verdict"] for row in rows if row["verdict"] is not None and not row.get("trial")}


def _grouped(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    return dict(sorted(groups.items()))


def _rate(rows: Sequence[Row]) -> dict[str, Any]:
    right = sum(row["verdict"] for row in rows)
    low, high = wilson(right, len(rows))
    return {
        "n": len(rows),
        "right": right,
        "accuracy": round(right / len(rows), 6) if rows else None,
        "interval": [round(low, 6), round(high, 6)],
    }


def _mean_with_interval(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"mean": None, "interval": [0.0, 1.0]}
    low, high = bootstrap_interval(values, resamples=2_000)
    return {"mean": round(fmean(values), 6), "interval": [round(low, 6), round(high, 6)]}


def _shown(rate: Mapping[str, Any]) -> str:
    if not rate["n"]:
        return "nothing judged"
    low, high = rate["interval"]
    return f"{rate['right']} of {rate['n']} right, {100 * rate['accuracy']:.2f} % [{100 * low:.1f}, {100 * high:.1f}]"


def _shown_trials(trials: Mapping[str, Any]) -> list[str]:
    (name, fewest), (_, most), *shares = trials.items()
    return [
        f"{name} {fewest}" + (f" to {most}" if most > fewest else ""),
        *(f"{share} {100 * value:.2f} %" if value is not None else f"{share} -" for share, value in shares),
    ]


def _shown_mean(value: Mapping[str, Any]) -> str:
    if value["mean"] is None:
        return "-"
    low, high = value["interval"]
    return f"{100 * value['mean']:.2f} % [{100 * low:.1f}, {100 * high:.1f}]"

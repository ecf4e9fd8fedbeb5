"""What the paper publishes about SIX-GYM-SQLite (BIRD-RL, Tables 7 and 8), to be shown beside a gym of one's own."""

from __future__ import annotations

from typing import Any

TABLE_7: dict[str, Any] = {
    "instances": 5000,
    "by_category": {"query": 3094, "management": 1087, "personalization": 819},
    "distinct_test_cases": 2477,
    "preprocess_sql": 3512,
    "clean_up_sql": 969,
    "multi_sql_instances": 454,
    "domains": 13,
}
LENGTH_BIN = 25  # tokens; width of a bar in histograms of lengths
# Mean and maximum in tokens of an unnamed tokenizer.
TABLE_8: dict[str, dict[str, tuple[float, int]]] = {
    "query": {"query": (183.93, 917), "issue_sql": (86.76, 751), "sol_sql": (96.22, 1976), "tests": (143.74, 1601)},
    "management": {"query": (120.20, 535), "issue_sql": (73.51, 802), "sol_sql": (83.84, 802), "tests": (446.16, 1085)},
    "personalization": {
        "query": (138.01, 421), "issue_sql": (96.63, 898), "sol_sql": (121.40, 1041), "tests": (216.33, 1418),
    },
    "overall": {"query": (162.55, 917), "issue_sql": (85.50, 898), "sol_sql": (97.66, 1976), "tests": (221.38, 1601)},
}  # fmt: skip

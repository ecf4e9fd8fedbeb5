"""Columns about issue texts, for what is expected of them as a whole: variety, length, and what they tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from birdrl.gym.instance import Instance
from birdrl.gym.leaks import overlap
from birdrl.gym.schema import Schema
from birdrl.gym.sql_text import count_tokens
from birdrl.gym.text_measures import wordings
from tasks.gate_columns import as_instance

TEXT_COLUMNS = ("wording", "query_tokens", "solution_share")


def text_columns(rows: Sequence[Mapping[str, Any]], schemas: Mapping[str, Schema]) -> pd.DataFrame:
    """One row per row: `wording` (names and values masked), `query_tokens`, and `solution_share`, the share of the
    tokens that only the solution has which the text holds. Nothing for a row that is no instance, which its gate tells.
    """
    able = {number: found for number, row in enumerate(rows) if isinstance(found := as_instance(row), Instance)}
    values = [
        (said, count_tokens(i.query), overlap(i.query, i.issue_sql, i.sol_sql).tokens)
        for i, said in zip(able.values(), wordings(list(able.values()), schemas), strict=True)
    ]
    frame = pd.DataFrame(values, index=list(able), columns=list(TEXT_COLUMNS)).reindex(range(len(rows)))
    return frame.astype({"query_tokens": float, "solution_share": float})

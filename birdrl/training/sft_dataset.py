"""Tokenised imitation samples for verl's SFT trainer (`data.custom_cls`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset


class TokenisedSamples(Dataset[dict[str, torch.Tensor]]):
    """Rows `input_ids`, `loss_mask` of a Parquet file as verl's un-padded samples.

    Tokens and mask are made once, by `birdrl.training.data`, with the same template code that rollouts use; a
    mask of 1 marks exactly the tokens that the policy would have sampled. Each item holds int64 tensors of shape
    (tokens,): input_ids, position_ids, loss_mask. The signature is what verl calls.
    """

    def __init__(self, parquet_files: Any, tokenizer: Any, config: Any, processor: Any = None, max_samples: int = -1):
        paths = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        self.rows: list[dict[str, Any]] = []
        for path in paths:
            self.rows += pq.read_table(Path(path), columns=["input_ids", "loss_mask"]).to_pylist()
        if max_samples > 0:
            self.rows = self.rows[:max_samples]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = self.rows[index]
        input_ids = torch.tensor(row["input_ids"], dtype=torch.int64)
        return {
            "input_ids": input_ids,
            "position_ids": torch.arange(len(input_ids), dtype=torch.int64),
            "loss_mask": torch.tensor(row["loss_mask"], dtype=torch.int64),
        }

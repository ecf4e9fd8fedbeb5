"""Attention for decoding on CPU that leaves shared keys and values where they are."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "grouped_sdpa"


def grouped_sdpa(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Query (batch, heads, tokens, dim), keys and values (batch, kv_heads, past, dim) -> (batch, tokens, heads, dim).

    Query heads that share a key-value head attend to the same tokens. For a single new token they can therefore stand
    in the place of query positions, and the whole cache need not be copied once per query head.
    """
    batch, heads, tokens, dim = query.shape
    if tokens != 1 or heads == key.shape[1]:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)  # type: ignore[no-any-return]
    grouped = query.reshape(batch, key.shape[1], -1, dim)
    out = torch.nn.functional.scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return out.reshape(batch, 1, heads, dim), None


def register() -> str:
    """Make `grouped_sdpa` known to transformers; returns its name for `attn_implementation`."""
    AttentionInterface.register(GROUPED, grouped_sdpa)
    AttentionMaskInterface.register(GROUPED, sdpa_mask)
    return GROUPED

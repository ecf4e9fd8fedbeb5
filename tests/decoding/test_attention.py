"""Decoding attention gives what transformers' own attention gives."""

from __future__ import annotations

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from birdrl.decoding.attention import register


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_grouped_attention_equals_sdpa_with_padding_and_cache(kv_heads: int) -> None:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=50, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=kv_heads,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).eval()
    ids = torch.randint(0, 50, (3, 7))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    mask[2, :1] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    logits = []
    for implementation in ("sdpa", register()):
        model.set_attn_implementation(implementation)
        with torch.inference_mode():
            cache = model(
                input_ids=ids[:, :-1], attention_mask=mask[:, :-1], position_ids=positions[:, :-1], use_cache=True
            ).past_key_values
            out = model(
                input_ids=ids[:, -1:], attention_mask=mask, position_ids=positions[:, -1:], past_key_values=cache
            )
        logits.append(out.logits)
    torch.testing.assert_close(logits[0], logits[1], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logits[0][0], logits[0][1])

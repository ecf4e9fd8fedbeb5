"""Packed attention gives what separate sequences give."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("verl")


@pytest.mark.parametrize("lengths", [[7], [3, 9, 1, 5]])
def test_packed_sequences_do_not_see_each_other(nano_folder: Path, lengths: list[int]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from birdrl.training.cpu_engine import register_packed_attention

    register_packed_attention("packed_sdpa")
    packed = AutoModelForCausalLM.from_pretrained(nano_folder, attn_implementation="packed_sdpa", dtype=torch.float32)
    plain = AutoModelForCausalLM.from_pretrained(nano_folder, attn_implementation="sdpa", dtype=torch.float32)
    pieces = [torch.randint(3, 900, (length,), generator=torch.Generator().manual_seed(length)) for length in lengths]
    positions = torch.cat([torch.arange(length) for length in lengths])
    together = packed(
        input_ids=torch.cat(pieces)[None], position_ids=positions[None], attention_mask=None, use_cache=False
    ).logits[0]
    apart = torch.cat([plain(input_ids=piece[None], use_cache=False).logits[0] for piece in pieces])
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-5)
    loss = torch.nn.functional.cross_entropy(together, torch.cat(pieces))
    loss.backward()
    gradients = [p.grad.clone() for p in packed.parameters()]
    torch.nn.functional.cross_entropy(apart, torch.cat(pieces)).backward()
    for gradient, parameter in zip(gradients, plain.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-5, rtol=1e-4)


def test_padding_is_refused(nano_folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from birdrl.training.cpu_engine import register_packed_attention

    register_packed_attention("packed_sdpa")
    model = AutoModelForCausalLM.from_pretrained(nano_folder, attn_implementation="packed_sdpa")
    with pytest.raises(ValueError, match="one packed row"):
        model(input_ids=torch.ones(2, 3, dtype=torch.long))

"""verl's FSDP2 language-model engine on CPU."""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.engine.fsdp import FSDPEngineWithLMHead


class CpuEngine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """`FSDPEngineWithLMHead` without what needs an accelerator."""

    def _build_fsdp_module(self, module: torch.nn.Module) -> torch.nn.Module:
        # verl wraps the forward-only reference model in CPUOffloadPolicy(pin_memory=True); pinned memory needs
        # an accelerator, and on CPU there is nowhere to offload to.
        config, forward_only = self.engine_config, self.engine_config.forward_only
        object.__setattr__(config, "forward_only", False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            object.__setattr__(config, "forward_only", forward_only)


def register_packed_attention(name: str) -> None:
    """Register attention over packed sequences, one SDPA call a sequence, with transformers.

    verl packs a micro-batch into one row of shape (1, tokens) whose position ids restart at each sequence. SDPA
    alone would need a (tokens, tokens) block-diagonal mask and do the work of all blocks; a call a sequence does
    only the diagonal ones.
    """
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    def packed_sdpa(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """query (1, heads, tokens, dim), key and value (1, kv_heads, tokens, dim) -> (1, tokens, heads, dim)."""
        if query.shape[0] != 1 or position_ids is None or attention_mask is not None:
            raise ValueError("packed_sdpa takes one packed row with position ids and no mask (use_remove_padding=True)")
        starts = (position_ids.reshape(-1) == 0).nonzero().flatten().tolist()
        bounds = zip(starts, [*starts[1:], query.shape[2]], strict=True)
        parts = [
            sdpa_attention_forward(
                module, query[:, :, a:b], key[:, :, a:b], value[:, :, a:b], None, is_causal=True, **kwargs
            )[0]
            for a, b in bounds
        ]
        return torch.cat(parts, dim=1), None

    AttentionInterface.register(name, packed_sdpa)

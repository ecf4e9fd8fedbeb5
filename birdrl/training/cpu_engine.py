"""verl's FSDP2 language-model engine on CPU."""

from __future__ import annotations

from typing import Any

import torch
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp import FSDPEngineWithLMHead

_NEEDS_ALL_LOGITS = ("calculate_sum_pi_squared", "distillation_use_topk", "distillation_only")


class CpuEngine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """`FSDPEngineWithLMHead` without what needs an accelerator, and with less work where a core counts."""

    def _build_fsdp_module(self, module: torch.nn.Module) -> torch.nn.Module:
        # verl wraps the forward-only reference model in CPUOffloadPolicy(pin_memory=True); pinned memory needs
        # an accelerator, and on CPU there is nowhere to offload to.
        config, forward_only = self.engine_config, self.engine_config.forward_only
        object.__setattr__(config, "forward_only", False)
        try:
            wrapped: torch.nn.Module = super()._build_fsdp_module(module)
            return wrapped
        finally:
            object.__setattr__(config, "forward_only", forward_only)

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """verl's inputs; logits are asked for only where a token that the loss counts is predicted."""
        inputs, output_args = super().prepare_model_inputs(micro_batch)
        kept = _counted_positions(micro_batch, output_args)
        if kept is not None:
            inputs["logits_to_keep"] = output_args["kept"] = kept
        return inputs, output_args

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, Any]:
        """verl's outputs; those of positions without logits are 0, and every loss and metric masks them."""
        kept = output_args.get("kept")
        if kept is None:
            outputs: dict[str, Any] = super().prepare_model_outputs(
                output, output_args, micro_batch, logits_processor_func
            )
            return outputs
        logits, labels = output.logits.squeeze(0), output_args["input_ids_rmpad_rolled"]
        if not output_args["temperature_is_one"]:
            logits = logits / output_args["temperature_rmpad"][kept, None]
        found = {"log_probs": -torch.nn.functional.cross_entropy(logits, labels[kept], reduction="none")}
        if tu.get_non_tensor_data(data=micro_batch, key="calculate_entropy", default=False):
            found["entropy"] = self.compute_entropy_from_logits(logits)
        offsets, nowhere = micro_batch["input_ids"].offsets(), torch.zeros(labels.shape[0])
        return {
            name: torch.nested.nested_tensor_from_jagged(nowhere.to(values.dtype).index_copy(0, kept, values), offsets)
            for name, values in found.items()
        }


def _counted_positions(micro_batch: Any, output_args: dict[str, Any]) -> torch.Tensor | None:
    """Positions of the packed row whose next token the mask counts; None where all logits are needed.

    The output layer is a fifth of the work of a 135M model, the softmax over its vocabulary comes on top, and most
    tokens of a sample are its prompt and the tools' observations.
    """
    flags = [tu.get_non_tensor_data(data=micro_batch, key=key, default=False) for key in _NEEDS_ALL_LOGITS]
    packed = tu.get_non_tensor_data(data=micro_batch, key="use_remove_padding", default=True)
    if not packed or any(flags) or output_args["pad_size"]:
        return None
    if "responses" in micro_batch:  # a rollout, whose mask begins with its response
        mask = micro_batch["response_mask"]
        if not mask.is_nested:
            return None
        ends = micro_batch["input_ids"].offsets()[1:]
        # As verl's response_from_nested shifts them.
        return torch.cat(
            [end - len(row) - 1 + row.nonzero().flatten() for end, row in zip(ends, mask.unbind(), strict=True)]
        )
    if "loss_mask" not in micro_batch:
        return None
    # The mask is rolled as in verl's sft_loss, so that both agree on the positions.
    return torch.roll(micro_batch["loss_mask"].values(), shifts=-1, dims=0).nonzero().flatten()


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

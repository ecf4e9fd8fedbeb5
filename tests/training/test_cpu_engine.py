"""Packed attention gives what separate sequences give."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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


@pytest.mark.parametrize("masks", [[[0, 0, 1, 1, 1], [0, 1, 0]], [[0, 1], [0, 0, 0, 1, 1, 0, 1]]])
def test_imitation_loss_without_the_prompts_logits_is_the_same(nano_folder: Path, masks: list[list[int]]) -> None:
    import torch
    from tensordict import TensorDict
    from transformers import AutoModelForCausalLM
    from verl.utils import tensordict_utils as tu
    from verl.workers.engine.fsdp import FSDPEngineWithLMHead
    from verl.workers.utils.losses import sft_loss

    from birdrl.training.cpu_engine import CpuEngine, register_packed_attention

    register_packed_attention("packed_sdpa")
    model = AutoModelForCausalLM.from_pretrained(nano_folder, attn_implementation="packed_sdpa", dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)

    def nested(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    batch = TensorDict(
        {
            "input_ids": nested([torch.randint(3, 900, (len(m),), generator=generator) for m in masks]),
            "position_ids": nested([torch.arange(len(m)) for m in masks]),
            "loss_mask": nested([torch.tensor(m) for m in masks]),
        },
        batch_size=len(masks),
    )
    tokens = sum(map(sum, masks))
    tu.assign_non_tensor(
        batch, temperature=1.0, use_remove_padding=True, pad_mode="no_padding", dp_size=1, batch_num_tokens=tokens
    )
    results = []
    for kind in (FSDPEngineWithLMHead, CpuEngine):
        engine = kind.__new__(kind)
        engine.use_ulysses_sp = engine.pad_to_length = False
        inputs, output_args = engine.prepare_model_inputs(batch)
        raw = model(**inputs, use_cache=False)
        outputs = engine.prepare_model_outputs(raw, output_args, batch, None)
        loss, _ = sft_loss(config=None, model_output=outputs, data=batch)
        model.zero_grad()
        loss.backward()
        results.append((raw.logits.shape[1], loss.detach(), [p.grad.clone() for p in model.parameters()]))
    assert [rows for rows, _, _ in results] == [sum(map(len, masks)), tokens]
    torch.testing.assert_close(results[0][1], results[1][1])
    for one, other in zip(results[0][2], results[1][2], strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("masks", [[[1, 1, 0, 0, 1], [1, 0]], [[1, 1, 1], [0, 0, 0, 0]]])
def test_rollouts_without_the_logits_of_prompts_and_observations_are_the_same(
    nano_folder: Path, masks: list[list[int]], temperature: float
) -> None:
    """Log-probabilities, entropy and gradients, as verl's own engine has them under the mask."""
    import torch
    from tensordict import TensorDict
    from transformers import AutoModelForCausalLM
    from verl.utils import tensordict_utils as tu
    from verl.utils import torch_functional
    from verl.workers.engine.fsdp import FSDPEngineWithLMHead
    from verl.workers.utils.padding import response_from_nested

    from birdrl.training.cpu_engine import CpuEngine, register_packed_attention

    register_packed_attention("packed_sdpa")
    model = AutoModelForCausalLM.from_pretrained(nano_folder, attn_implementation="packed_sdpa", dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    prompt = 6

    def nested(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    ids = [torch.randint(3, 900, (prompt + len(m),), generator=generator) for m in masks]
    mask = nested([torch.tensor(m) for m in masks])
    batch = TensorDict(
        {
            "input_ids": nested(ids),
            "position_ids": nested([torch.arange(len(row)) for row in ids]),
            "responses": nested([row[prompt:] for row in ids]),
            "response_mask": mask,
        },
        batch_size=len(masks),
    )
    tu.assign_non_tensor(
        batch, temperature=temperature, use_remove_padding=True, pad_mode="no_padding", calculate_entropy=True
    )
    results = []
    for kind in (FSDPEngineWithLMHead, CpuEngine):
        engine = kind.__new__(kind)
        engine.use_ulysses_sp = engine.pad_to_length = False
        engine.engine_config = SimpleNamespace(entropy_checkpointing=False, entropy_from_logits_with_chunking=False)
        engine.compute_entropy_from_logits = torch_functional.entropy_from_logits
        inputs, output_args = engine.prepare_model_inputs(batch)
        raw = model(**inputs, use_cache=False)
        outputs = engine.prepare_model_outputs(raw, output_args, batch, None)
        kept = mask.values().bool()
        parts = [response_from_nested(outputs[name], mask).values()[kept] for name in ("log_probs", "entropy")]
        model.zero_grad()
        sum(part.sum() for part in parts).backward()
        results.append((raw.logits.shape[1], parts, [p.grad.clone() for p in model.parameters()]))
    assert [rows for rows, _, _ in results] == [sum(map(len, ids)), sum(map(sum, masks))]
    for one, other in zip([*results[0][1], *results[0][2]], [*results[1][1], *results[1][2]], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)

"""The linear layer of a decoding model computes what torch's does."""

from __future__ import annotations

import pytest
import torch

from birdrl.decoding.linear import PackedLinear, prepare


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (3, 7), (129, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_torch_and_its_rows_are_in_one_piece(shape: tuple[int, int], bias: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(12, 20, bias=bias))
    rows = random(*shape, 12)
    with torch.inference_mode():
        expected = model(rows)
        prepare(model)
        got = model(rows)
    assert isinstance(model[0].forward, PackedLinear)
    assert got.is_contiguous()
    torch.testing.assert_close(got, expected)


def test_loaded_weights_count_at_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(12, 20))
    prepare(model)
    rows = random(4, 12)
    with torch.inference_mode():
        model(rows)
    state = {"0.weight": random(20, 12), "0.bias": random(20)}
    model.load_state_dict(state)
    with torch.inference_mode():
        torch.testing.assert_close(model(rows), torch.nn.functional.linear(rows, state["0.weight"], state["0.bias"]))

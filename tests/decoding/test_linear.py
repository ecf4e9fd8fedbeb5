"""The linear layer of a decoding model computes what torch's does."""

from __future__ import annotations

import pytest
import torch

from birdrl.decoding.linear import FEW_ROWS, prepare


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (3, 7), (FEW_ROWS + 1, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_equals_torch_and_its_rows_are_in_one_piece(shape: tuple[int, int], bias: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(12, 20, bias=bias))
    rows = torch.randn(*shape, 12, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(rows)
        prepare(model)
        got = model(rows)
    assert got.is_contiguous()
    torch.testing.assert_close(got, expected)

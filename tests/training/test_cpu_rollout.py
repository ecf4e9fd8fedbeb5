"""The rollout server answers as verl's does: batching, weights, refusals."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture
def cpu_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verl")


@pytest.mark.usefixtures("cpu_platform")
def test_the_server_batches_what_is_queued(nano_folder: Path) -> None:
    from birdrl.training.cpu_rollout import CpuServer

    async def ask_twice() -> tuple[list[Any], dict[str, Any]]:
        server = CpuServer(str(nano_folder), 60, 20, seed=0)
        params = {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "logprobs": True, "max_tokens": 6}
        answers = await asyncio.gather(
            *[server.generate(f"r{n}", [5 + n, 6, 7], {**params, "seed": n}) for n in range(8)]
        )
        await server.load_weights(server.model.state_dict(), global_steps=4)
        answers.append(await server.generate("again", [5, 6, 7], {**params, "seed": 0}))
        return answers, server.info()

    answers, info = asyncio.run(ask_twice())
    assert info == {"peak_rows": 8, "global_steps": 4}
    assert answers[0].token_ids == answers[8].token_ids
    assert all(len(answer.token_ids) == len(answer.log_probs) <= 6 for answer in answers)
    assert answers[8].extra_fields["global_steps"] == 4


@pytest.mark.usefixtures("cpu_platform")
def test_unknown_weights_and_sampling_are_refused(nano_folder: Path) -> None:
    from birdrl.training.cpu_rollout import CpuServer

    server = CpuServer(str(nano_folder), 60, 20, seed=0)
    with pytest.raises(ValueError, match="weights do not fit"):
        asyncio.run(server.load_weights({"model.norm.weight": torch.ones(128)}))
    with pytest.raises(ValueError, match="whole distribution"):
        asyncio.run(server.generate("r", [1], {"top_p": 0.9}))

"""Rollout backend `hf_cpu`: one Ray actor a replica that batches concurrent requests over a transformers model.

Speaks the protocol of verl's vLLM server actor, so agent loops and the trainer see no difference.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from birdrl.training.generation import Request, Sampled, sample

THREADS_VARIABLE = "BIRDRL_TORCH_THREADS"
BATCH_VARIABLE = "BIRDRL_ROLLOUT_BATCH"
BATCH_WINDOW_S = 0.02


def server_name(replica_rank: int) -> str:
    """Ray actor name under which trainer and replica find the server."""
    return f"birdrl_hf_cpu_{replica_rank}"


class CpuServer:
    """Generates for many concurrent callers: what is queued within a short window becomes one batch."""

    def __init__(self, path: str, prompt_length: int, response_length: int, seed: int) -> None:
        torch.set_num_threads(int(os.environ.get(THREADS_VARIABLE, "1")))
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa").eval()
        end = self.model.generation_config.eos_token_id
        self.stop_ids = frozenset(end if isinstance(end, list) else [end])
        pad = self.model.config.pad_token_id
        self.pad_id = pad if pad is not None else min(self.stop_ids)
        self.response_length = response_length
        self.context = prompt_length + response_length
        self.batch_limit = int(os.environ.get(BATCH_VARIABLE, "32"))
        self.global_steps: int | None = None
        self.unseeded = random.Random(seed)
        self.queue: asyncio.Queue[tuple[Request, asyncio.Future[Sampled]]] = asyncio.Queue()
        self.busy = asyncio.Lock()  # generating and loading weights exclude each other
        self.runner: asyncio.Task[None] | None = None
        self.batches: list[int] = []

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_media: Any
    ) -> TokenOutput:
        """Continue `prompt_ids`. `sampling_params`: max_tokens, temperature, seed, logprobs, as for vLLM.

        Raises ValueError for sampling that this backend does not have (top_k, top_p, penalties).
        """
        if sampling_params.get("top_p", 1.0) != 1.0 or sampling_params.get("top_k", -1) not in (-1, 0):
            raise ValueError(f"hf_cpu samples from the whole distribution; got {sampling_params}")
        if sampling_params.get("repetition_penalty", 1.0) != 1.0:
            raise ValueError(f"hf_cpu has no repetition penalty; got {sampling_params}")
        wanted = sampling_params.get("max_tokens") or self.response_length
        limit = min(wanted, self.context - len(prompt_ids))
        extra = {"global_steps": self.global_steps}
        if limit <= 0:
            return TokenOutput(token_ids=[], log_probs=[], stop_reason="completed", extra_fields=extra)
        seed = sampling_params.get("seed")
        request = Request(
            tuple(int(i) for i in prompt_ids),
            limit,
            float(sampling_params.get("temperature", 1.0)),
            int(seed) if seed is not None else self.unseeded.getrandbits(62),
        )
        if self.runner is None or self.runner.done():
            self.runner = asyncio.create_task(self._serve())
        answer: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((request, answer))
        sampled = await answer
        return TokenOutput(
            token_ids=sampled.token_ids,
            log_probs=sampled.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            num_preempted=0,
            extra_fields=extra,
        )

    async def _serve(self) -> None:
        while True:
            batch = [await self.queue.get()]
            await asyncio.sleep(BATCH_WINDOW_S)
            while len(batch) < self.batch_limit and not self.queue.empty():
                batch.append(self.queue.get_nowait())
            requests = [request for request, _ in batch]
            try:
                async with self.busy:
                    results = await asyncio.to_thread(
                        sample, self.model, requests, stop_ids=self.stop_ids, pad_id=self.pad_id
                    )
            except Exception as error:  # noqa: BLE001 - every caller of the batch gets it
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            self.batches.append(len(batch))
            for (_, answer), result in zip(batch, results, strict=True):
                if not answer.done():
                    answer.set_result(result)

    async def load_weights(self, state: dict[str, torch.Tensor], global_steps: int | None = None) -> None:
        """Replace the weights between two batches. Raises ValueError when names do not match the model's."""
        async with self.busy:
            missing, unexpected = self.model.load_state_dict(state, strict=False)
            tied = set(self.model.all_tied_weights_keys)
            if unexpected or set(missing) - tied:
                raise ValueError(f"weights do not fit: missing {sorted(set(missing) - tied)}, unexpected {unexpected}")
            self.model.tie_weights()
            self.global_steps = global_steps

    def info(self) -> dict[str, Any]:
        """Batch sizes so far and the step of the weights."""
        return {"batches": list(self.batches), "global_steps": self.global_steps}

    # The rest of the protocol concerns accelerator memory and profiling: nothing to do on CPU.
    def wake_up(self, *_args: Any, **_kwargs: Any) -> None: ...
    def sleep(self, *_args: Any, **_kwargs: Any) -> None: ...
    def abort_all_requests(self, *_args: Any, **_kwargs: Any) -> None: ...
    def resume_generation(self, *_args: Any, **_kwargs: Any) -> None: ...
    def clear_kv_cache(self, *_args: Any, **_kwargs: Any) -> None: ...
    def release_kv_cache(self, *_args: Any, **_kwargs: Any) -> None: ...
    def resume_kv_cache(self, *_args: Any, **_kwargs: Any) -> None: ...
    def start_profile(self, *_args: Any, **_kwargs: Any) -> None: ...
    def stop_profile(self, *_args: Any, **_kwargs: Any) -> None: ...


class CpuReplica(RolloutReplica):  # type: ignore[misc]
    """Starts the server actor of one replica."""

    async def launch_servers(self) -> None:
        actor = ray.remote(CpuServer).options(
            name=server_name(self.replica_rank), num_cpus=0, max_concurrency=self.max_concurrency
        )
        server = actor.remote(
            self.model_config.path, self.config.prompt_length, self.config.response_length, self.config.seed
        )
        await server.info.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, server_name(self.replica_rank)


class CpuServerAdapter(BaseRollout):  # type: ignore[misc]
    """Lives in the training worker and pushes fresh weights to the server (one rank, one replica)."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"])

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_kwargs: Any) -> None:
        state = {name: weight.detach().cpu().float() for name, weight in weights}
        await ray.get_actor(server_name(self.replica_rank)).load_weights.remote(state, global_steps)

"""Rollout backend `hf_cpu`: one Ray actor a replica that batches concurrent requests over a transformers model.

Speaks the protocol of verl's vLLM server actor, so agent loops and the trainer see no difference.
"""

from __future__ import annotations

import asyncio
import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from birdrl.decoding import Decoder, Request, Sampled
from birdrl.decoding.attention import register

THREADS_VARIABLE = "BIRDRL_TORCH_THREADS"
BATCH_WINDOW_S = 0.02  # the first requests of a step come close together: start with all of them


def server_name(replica_rank: int) -> str:
    """Ray actor name under which trainer and replica find the server."""
    return f"birdrl_hf_cpu_{replica_rank}"


class CpuServer:
    """Generates for many concurrent callers, whose requests join the running batch as they come."""

    def __init__(self, path: str, prompt_length: int, response_length: int, seed: int, rows: int = 64) -> None:
        """`rows`: requests that run together at most."""
        torch.set_num_threads(int(os.environ.get(THREADS_VARIABLE, "1")))
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=register())
        self.model.eval()
        end = self.model.generation_config.eos_token_id
        stop_ids = frozenset(end if isinstance(end, list) else [end])
        self.decoder = Decoder(self.model, stop_ids, rows)
        self.response_length = response_length
        self.context = prompt_length + response_length
        self.global_steps: int | None = None
        self.unseeded = random.Random(seed)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="birdrl-decoder")  # one pool of torch threads
        self.answers: dict[int, asyncio.Future[Sampled]] = {}
        self.runner: asyncio.Task[None] | None = None
        self.loading = asyncio.Lock()  # requests that come while weights are loaded wait for them

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
        async with self.loading:
            answer = self.answers[self.decoder.submit(request)] = asyncio.get_running_loop().create_future()
            if self.runner is None or self.runner.done():
                self.runner = asyncio.create_task(self._serve())
        sampled = await answer
        return TokenOutput(
            token_ids=sampled.token_ids,
            log_probs=sampled.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            num_preempted=0,
            extra_fields=extra,
        )

    async def _serve(self) -> None:
        """Step until nothing is left; an error of the model reaches every caller that waits."""
        await asyncio.sleep(BATCH_WINDOW_S)
        try:
            while not self.decoder.idle:
                ended = await asyncio.get_running_loop().run_in_executor(self.thread, self.decoder.step)
                for ticket, result in ended:
                    answer = self.answers.pop(ticket)
                    if not answer.done():
                        answer.set_result(result)
        except Exception as error:  # noqa: BLE001 - every caller gets it
            answers, self.answers = self.answers, {}
            self.decoder = Decoder(self.model, self.decoder.stop_ids, self.decoder.batch_limit)
            for answer in answers.values():
                if not answer.done():
                    answer.set_exception(error)

    async def load_weights(self, state: dict[str, torch.Tensor], global_steps: int | None = None) -> None:
        """Replace the weights when nothing is running. Raises ValueError when names do not match the model's."""
        async with self.loading:
            if self.runner is not None:
                await self.runner
            self.decoder.forget()
            missing, unexpected = self.model.load_state_dict(state, strict=False)
            tied = set(self.model.all_tied_weights_keys)
            if unexpected or set(missing) - tied:
                raise ValueError(f"weights do not fit: missing {sorted(set(missing) - tied)}, unexpected {unexpected}")
            self.model.tie_weights()
            self.global_steps = global_steps

    def info(self) -> dict[str, Any]:
        """The most requests that ran together, and the step of the weights."""
        return {"peak_rows": self.decoder.peak_rows, "global_steps": self.global_steps}

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
            self.model_config.path,
            self.config.prompt_length,
            self.config.response_length,
            self.config.seed,
            self.config.max_num_seqs,
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

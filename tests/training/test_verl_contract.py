"""The internals of verl that the CPU platform, the sampler and the agent loop rest on, held to the pinned version."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

verl = pytest.importorskip("verl")

PINNED = "0.9.1"


def test_the_version_is_the_pinned_one() -> None:
    assert verl.__version__ == PINNED, "check every use of an internal named in this file before moving the pin"


def test_the_process_group_backend_is_what_the_patch_changes() -> None:
    import verl.utils.distributed as distributed

    users = [
        name
        for name, function in inspect.getmembers(distributed, inspect.isfunction)
        if function.__module__ == distributed.__name__ and "get_device_name()" in inspect.getsource(function)
    ]
    assert users == ["initialize_global_process_group", "initialize_global_process_group_ray"]
    for name in users:
        assert 'f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"' in inspect.getsource(getattr(distributed, name))


def test_the_engine_offloads_because_of_forward_only() -> None:
    from verl.workers.engine.fsdp import FSDPEngineWithLMHead
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    assert "offload_policy or self.engine_config.forward_only" in inspect.getsource(FSDPEngine._build_fsdp_module)
    parameters = inspect.signature(FSDPEngineWithLMHead.prepare_model_outputs).parameters
    assert list(parameters) == ["self", "output", "output_args", "micro_batch", "logits_processor_func"]


def test_the_rollout_registries() -> None:
    from verl.workers.rollout import base
    from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

    assert ("vllm", "async") in base._ROLLOUT_REGISTRY
    assert callable(RolloutReplicaRegistry.register)
    assert {"token_ids", "log_probs", "stop_reason", "num_preempted", "extra_fields"} <= set(TokenOutput.model_fields)
    called = {"wake_up", "sleep", "abort_all_requests", "resume_generation", "clear_kv_cache", "release_kv_cache",
              "resume_kv_cache", "start_profile", "stop_profile"}  # fmt: skip
    from birdrl.training.cpu_rollout import CpuServer

    assert called == {n for n in called if hasattr(RolloutReplica, n) and hasattr(CpuServer, n)}


def test_the_agent_loop_worker_takes_an_empty_list_and_a_reward() -> None:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopManager, AgentLoopOutput
    from verl.trainer.ppo.v1 import agent_loop_tq

    source = inspect.getsource(agent_loop_tq)
    assert "if not outputs:" in source
    assert 'keys.append(f"{uid}_{session_id}_{i}")' in source
    assert "reward_score" in AgentLoopOutput.model_fields
    workers = inspect.getsource(AgentLoopManager._init_agent_loop_workers)
    assert 'name=f"agent_loop_worker_{i}" + f"_{uuid4().hex[:8]}"' in workers, "tells a worker its number"
    assert inspect.isabstract(AgentLoopBase)


def test_the_sampler_seam() -> None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    assert list(inspect.signature(ReplayBuffer.sample).parameters)[1:] == ["global_steps", "partition_id", "batch_size"]
    assert "poll_interval" in inspect.signature(ReplayBuffer.__init__).parameters
    assert "custom_sampler" in inspect.getsource(PPOTrainer._build_replay_buffer)


def test_a_group_of_one_would_be_given_its_reward_as_advantage() -> None:
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    rewards = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    advantages, _ = compute_grpo_outcome_advantage(rewards, torch.ones(3, 2), np.array(["alone", "pair", "pair"]))
    assert advantages[0, 0] == pytest.approx(1.0, abs=1e-5), "which is why the sampler drops such groups"
    assert advantages[1, 0] == -advantages[2, 0]


def test_the_file_logger_is_named_by_the_environment() -> None:
    from verl.utils import tracking

    source = inspect.getsource(tracking.FileLogger)
    assert "VERL_FILE_LOGGER_PATH" in source
    assert '{"step": step, "data": data}' in source
    from birdrl.training.engine import TRACKING_LOST

    assert TRACKING_LOST in inspect.getsource(tracking.Tracking.__init__)


PROBE = """
import verl, torch
from verl.utils.device import get_device_name
from verl.workers.engine import EngineRegistry
from verl.workers.rollout.replica import RolloutReplicaRegistry, get_rollout_replica_class
import verl.utils.distributed as d
print(get_device_name(), d.get_device_name(), get_rollout_replica_class("hf_cpu").__name__)
print(EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__)
"""


def probe(**environment: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    clean = {k: v for k, v in os.environ.items() if not k.startswith("VERL_")}
    return subprocess.run(
        [sys.executable, "-c", PROBE], env=clean | environment | {"PYTHONPATH": root}, capture_output=True, text=True
    )


def test_verl_loads_the_platform_when_told_to() -> None:
    done = probe(
        VERL_PLATFORM="cpu",
        VERL_USE_EXTERNAL_MODULES="birdrl.training.cpu_platform",
        VERL_USE_EXTERNAL_PLUGINS="none",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["cpu", "cuda", "CpuReplica", "CpuEngine"]


def test_without_the_platform_nothing_is_registered() -> None:
    done = probe(VERL_USE_EXTERNAL_MODULES="birdrl.training.cpu_platform", VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.returncode != 0
    assert "hf_cpu" in done.stderr

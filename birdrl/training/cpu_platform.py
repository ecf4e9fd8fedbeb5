"""verl 0.9.1 on CPU: the platform, the FSDP2 engine and the rollout backend, registered from outside.

Loaded by verl itself (`VERL_USE_EXTERNAL_MODULES=birdrl.training.cpu_platform`) in every process of a run, and
active only with `VERL_PLATFORM=cpu`. No file of verl is changed; the internals used here are pinned by
verl's version and held by `tests/training/test_verl_contract.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

ROLLOUT_NAME = "hf_cpu"
ATTENTION_NAME = "packed_sdpa"


def device_module() -> ModuleType:
    """A `torch.cuda` look-alike over `torch.cpu`: the memory and device calls that verl makes on it."""
    module = ModuleType("birdrl_cpu_device")
    for name in dir(torch.cpu):
        if not name.startswith("__"):
            setattr(module, name, getattr(torch.cpu, name))
    answers: dict[str, Any] = {
        "is_available": False,  # no accelerator: verl then skips its memory bookkeeping
        "device_count": 1,
        "current_device": torch.device("cpu"),
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
        "ipc_collect": None,
        "memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_allocated": 0,
        "max_memory_reserved": 0,
        "reset_peak_memory_stats": None,
        "mem_get_info": (0, 0),
        "get_device_name": "CPU",
    }
    for name, answer in answers.items():
        setattr(module, name, lambda *_args, _answer=answer, **_kwargs: _answer)
    for name in ("manual_seed", "get_rng_state", "set_rng_state"):  # the last two restore a checkpoint's state
        setattr(module, name, getattr(torch, name))
    module.manual_seed_all = torch.manual_seed  # type: ignore[attr-defined]
    return module


def register() -> None:
    """Register platform, engine and rollout with verl, and apply the one runtime patch."""
    from verl.plugin.platform.platform_base import PlatformBase
    from verl.plugin.platform.platform_manager import PlatformRegistry

    @PlatformRegistry.register(platform="cpu")
    class CpuPlatform(PlatformBase):  # type: ignore[misc]
        """What verl asks of a device. A "GPU" is a logical Ray resource here (ray_init.num_gpus)."""

        device_name = "cpu"
        vendor_name = "cpu"
        device_module = device_module()

        def is_available(self) -> bool:
            return True

        def is_platform_available(self, use_smi_check: bool = False) -> bool:
            return False  # chosen by VERL_PLATFORM only, never by probing

        def current_device(self) -> Any:
            return torch.device("cpu")  # verl uses it as the target of `.to()`

        def device_count(self) -> int:
            return 1

        def set_device(self, device_index: int) -> None:
            pass

        def synchronize(self, device_index: int | None = None) -> None:
            pass

        def manual_seed(self, seed: int) -> None:
            torch.manual_seed(seed)

        manual_seed_all = manual_seed

        def set_allocator_settings(self, settings: str) -> None:
            pass

        def empty_cache(self) -> None:
            pass

        def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
            return None, None

        def communication_backend_name(self) -> str:
            return "gloo"

        def visible_devices_envvar(self) -> str:
            return "BIRDRL_CPU_VISIBLE_DEVICES"

        @contextlib.contextmanager
        def nvtx_range(self, msg: str) -> Iterator[None]:
            yield

        def profiler_start(self) -> None:
            pass

        def profiler_stop(self) -> None:
            pass

        def ray_resource_name(self) -> str:
            return "GPU"

        def ray_noset_envvars(self) -> list[str]:
            return []

        def is_ipc_supported(self) -> bool:
            return False

        def cudart(self) -> Any:
            return None

    # The patch. verl asks for the process-group backend "cpu:gloo,<device>:<backend>", and torch refuses the
    # device type "cpu" twice; the name is used in that module for this string only.
    import verl.utils.distributed as distributed

    distributed.get_device_name = lambda: "cuda"

    from verl.workers.engine import EngineRegistry
    from verl.workers.rollout import base as rollout_base
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    from birdrl.training.cpu_engine import CpuEngine, register_packed_attention

    register_packed_attention(ATTENTION_NAME)
    EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cpu")(CpuEngine)

    def load_replica() -> type:
        from birdrl.training.cpu_rollout import CpuReplica

        return CpuReplica

    RolloutReplicaRegistry.register(ROLLOUT_NAME, load_replica)
    rollout_base._ROLLOUT_REGISTRY[(ROLLOUT_NAME, "async")] = "birdrl.training.cpu_rollout.CpuServerAdapter"


if os.environ.get("VERL_PLATFORM") == "cpu":
    register()

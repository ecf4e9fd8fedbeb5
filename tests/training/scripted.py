"""A scripted policy in place of the rollout server, and a harness that runs agent loops with it, without Ray."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toy_shop import BOUNDARY, build_store

from birdrl.agent.prompting import load_prompts
from birdrl.agent.tools import format_tool_call
from birdrl.files import read_jsonl
from birdrl.gym.instance import Instance
from birdrl.params import Params
from birdrl.training.rollout_settings import RolloutSettings

GOOD = "SELECT id FROM orders WHERE price >= 20"
SIZES = {
    "data.max_prompt_length": 700, "data.max_response_length": 400, "data.train_batch_size": 1,
    "actor_rollout_ref.rollout.n": 2, "actor_rollout_ref.rollout.agent.num_workers": 1,
}  # fmt: skip
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}

Script = Sequence[str | Exception | float]


def call(sql: str, name: str = "execute_sql") -> str:
    return format_tool_call(name, sql)


@functools.cache
def engine_config(*overrides: str) -> Any:
    """verl's configuration with the sizes that the harness's settings have."""
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [*(f"{key}={value}" for key, value in SIZES.items()), *overrides])


class ScriptedServer:
    """Answers with the next text of a script, ended by the end mark unless the text is marked as cut.

    A number in the script lets the next answer wait for so many seconds; an exception is raised.
    """

    def __init__(self, tokenizer: Any, script: Script) -> None:
        self.tokenizer, self.script = tokenizer, list(script)
        self.calls: list[dict[str, Any]] = []

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **media: Any
    ) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        self.calls.append({"prompt_ids": list(prompt_ids), **sampling_params})
        text = self.script.pop(0)
        if isinstance(text, float):
            await asyncio.sleep(text)
            text = self.script.pop(0)
        if isinstance(text, Exception):
            raise text
        assert isinstance(text, str)
        ids = self.tokenizer.encode(text.removesuffix("<cut>"), add_special_tokens=False)
        ids = ids if text.endswith("<cut>") else [*ids, self.tokenizer.eos_token_id]
        ids = ids[: sampling_params.get("max_tokens")]
        extra = {"min_global_steps": 4, "max_global_steps": 4, "global_steps": 4}
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=extra)


class Harness:
    """The toy shop in a template store, and the agent loop on it."""

    def __init__(self, folder: Path, tokenizer: Any, params: Params) -> None:
        self.folder, self.tokenizer, self.params = folder, tokenizer, params
        (folder / "templates").mkdir()
        self.store = build_store(folder / "templates")
        self.log = folder / "log.jsonl"
        self.settings_file = folder / "settings.json"

    def configure(
        self, *, tools: bool = True, group_size: int = 2, agent: dict[str, Any] | None = None, **more: Any
    ) -> Any:
        """Write the settings and start their environment, in place of the one before."""
        from birdrl.training.environment import rollout_environment

        self.close()
        limits = {"max_response_tokens": 64, "max_trajectory_tokens": 400, **(agent or {})}
        values = {
            "agent": self.params.agent.model_copy(update=limits).model_dump(), "tools": tools,
            "templates": str(self.store.folder), "seed": 3, "group_size": group_size, "prompts_per_step": 1,
            "max_failure_share": 0.02, "log": str(self.log), **more,
        }  # fmt: skip
        RolloutSettings.model_validate(values).write(self.settings_file)
        return rollout_environment(str(self.settings_file))

    def close(self) -> None:
        """End the environment of the latest settings, if there is one."""
        from birdrl.training.environment import rollout_environment

        if rollout_environment.cache_info().currsize:
            rollout_environment(str(self.settings_file)).close()
        rollout_environment.cache_clear()

    def loop(self, server: ScriptedServer, *overrides: str, tools: Sequence[Any] = ()) -> Any:
        """One agent loop, made as verl makes it."""
        from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
        from verl.utils.dataset.rl_dataset import RLHFDataset

        from birdrl.training.agent_loop import SqlAgentLoop

        config = engine_config(*overrides)
        return SqlAgentLoop(
            trainer_config=DictConfigWrap(config), server_manager=server, tokenizer=self.tokenizer, processor=None,
            dataset_cls=RLHFDataset, data_config=DictConfigWrap(config.data), hf_model_type="qwen2",
            tools=ToolListWrap(list(tools)), settings=str(self.settings_file), name="birdrl",
        )  # fmt: skip

    def row(self, instance: Instance, *, tools: bool = True, session: int = 1) -> dict[str, Any]:
        """A row as the data writer and the engine's worker make it."""
        prompts, schema = load_prompts("compact"), self.store.schema("shop")
        messages = prompts.agentic(instance, schema) if tools else prompts.reasoning(instance, schema)
        extra = {"index": 5, "instance": instance.model_dump_json()}
        return {"extra_info": extra, "raw_prompt": messages, "global_steps": 2, "session_id": session, "uid": "u"}

    def run(
        self, script: Script, instance: Instance = BOUNDARY, *, tools: bool = True, **agent: Any
    ) -> tuple[Any, ScriptedServer, Any]:
        """One trajectory: (output, server, the loop's environment)."""
        more = {name: agent.pop(name) for name in ("group_size", "reward") if name in agent}
        environment = self.configure(tools=tools, agent=agent, **more)
        server = ScriptedServer(self.tokenizer, script)

        async def go() -> Any:
            return await self.loop(server).run(dict(SAMPLING), **self.row(instance, tools=tools))

        return asyncio.run(go()), server, environment

    def record(self) -> dict[str, Any]:
        return list(read_jsonl(self.log))[-1]

    def text(self, output: Any, mask: int) -> str:
        """The response's text: sampled tokens (mask 1) or given ones (mask 0)."""
        return self.tokenizer.decode(
            [t for t, m in zip(output.response_ids, output.response_mask, strict=True) if m == mask]
        )

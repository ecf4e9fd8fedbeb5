"""The agent loop on a real replica, with a scripted policy in place of the rollout server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, UPDATE, build_store

from birdrl.agent.prompting import load_prompts
from birdrl.agent.templating import observation_suffix
from birdrl.agent.tools import TOOLS, format_tool_call
from birdrl.errors import InfraError
from birdrl.files import read_jsonl
from birdrl.gym.instance import Instance
from birdrl.params import Params
from birdrl.training.rollout_settings import RolloutSettings

pytest.importorskip("verl")

GOOD = "SELECT id FROM orders WHERE price >= 20"


def call(sql: str, name: str = "execute_sql") -> str:
    return format_tool_call(name, sql)


class ScriptedServer:
    """Answers with the next text of a script, ended by the end mark unless the text is marked as cut."""

    def __init__(self, tokenizer: Any, script: list[str | Exception], delay_s: float = 0.0) -> None:
        self.tokenizer, self.script, self.delay_s = tokenizer, list(script), delay_s
        self.calls: list[dict[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        await asyncio.sleep(self.delay_s)
        self.calls.append({"prompt_ids": list(prompt_ids), **sampling_params})
        text = self.script.pop(0)
        if isinstance(text, Exception):
            raise text
        ids = self.tokenizer.encode(text.removesuffix("<cut>"), add_special_tokens=False)
        ids = ids if text.endswith("<cut>") else [*ids, self.tokenizer.eos_token_id]
        ids = ids[: sampling_params["max_tokens"]]
        extra = {"min_global_steps": 4, "max_global_steps": 4, "global_steps": 4}
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=extra)


class Harness:
    def __init__(self, tmp_path: Path, tokenizer: Any, params: Params) -> None:
        self.folder, self.tokenizer, self.params = tmp_path, tokenizer, params
        (tmp_path / "templates").mkdir()
        self.store = build_store(tmp_path / "templates")
        self.log = tmp_path / "log.jsonl"

    def run(
        self, script: list[str | Exception], instance: Instance = BOUNDARY, *, tools: bool = True, delay_s: float = 0.0,
        **agent: Any,
    ) -> tuple[Any, ScriptedServer, Any]:  # fmt: skip
        """(output, server, the loop's environment)"""
        from hydra import compose, initialize_config_module
        from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
        from verl.utils.dataset.rl_dataset import RLHFDataset

        from birdrl.training.agent_loop import SqlAgentLoop, rollout_environment

        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", [])
        limits = {"max_response_tokens": 64, "max_trajectory_tokens": 400, **agent}
        settings = RolloutSettings(
            agent=self.params.agent.model_copy(update=limits), tools=tools, templates=str(self.store.folder), seed=3,
            group_size=2, prompts_per_step=1, max_failure_share=0.02, log=str(self.log),
        )  # fmt: skip
        path = self.folder / "settings.json"
        settings.write(path)
        rollout_environment.cache_clear()
        server = ScriptedServer(self.tokenizer, script, delay_s)
        prompts, schema = load_prompts("compact"), self.store.schema("shop")
        messages = prompts.agentic(instance, schema) if tools else prompts.reasoning(instance, schema)

        async def go() -> Any:
            loop = SqlAgentLoop(
                trainer_config=DictConfigWrap(config), server_manager=server, tokenizer=self.tokenizer, processor=None,
                dataset_cls=RLHFDataset, data_config=DictConfigWrap(config.data), hf_model_type="qwen2",
                tools=ToolListWrap([]), settings=str(path), name="birdrl",
            )  # fmt: skip
            return await loop.run(
                {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True},
                extra_info={"index": 5, "instance": instance.model_dump_json()},
                raw_prompt=messages, global_steps=2, session_id=1, uid="u",
            )  # fmt: skip

        output = asyncio.run(go())
        environment = rollout_environment(str(path))
        return output, server, environment

    def record(self) -> dict[str, Any]:
        return list(read_jsonl(self.log))[-1]

    def text(self, output: Any, mask: int) -> str:
        return self.tokenizer.decode(
            [t for t, m in zip(output.response_ids, output.response_mask, strict=True) if m == mask]
        )


@pytest.fixture
def harness(tmp_path: Path, tokenizer: Any, params: Params) -> Harness:
    return Harness(tmp_path, tokenizer, params)


def test_the_mask_is_one_exactly_on_sampled_tokens(harness: Harness) -> None:
    turns = [call("SELECT COUNT(*) FROM orders"), f"So:\n{call(GOOD, 'submit_solution')}"]
    output, server, _ = harness.run(list(turns))
    assert harness.text(output, 1) == "".join(f"{turn}<|im_end|>" for turn in turns)
    given = harness.text(output, 0)
    assert given.startswith(observation_suffix("").split("\n</tool_response>")[0])
    assert given.endswith("<|im_start|>assistant\n")
    assert output.reward_score == 1.0
    assert output.num_turns == 2
    assert [lp != 0 for lp in output.response_logprobs] == [m == 1 for m in output.response_mask]
    # Token in, token out: the second request continues the very ids of the first.
    second = server.calls[1]["prompt_ids"]
    assert second == output.prompt_ids + output.response_ids[: len(second) - len(output.prompt_ids)]
    assert server.calls[0]["seed"] != server.calls[1]["seed"]
    whole = harness.tokenizer.decode(output.prompt_ids)
    assert all(tool["function"]["name"] in whole for tool in TOOLS)


def test_a_submission_on_the_last_turn_counts(harness: Harness) -> None:
    output, _, _ = harness.run([call("SELECT 1"), call("SELECT 2"), call(GOOD, "submit_solution")])
    assert output.reward_score == 1.0
    assert harness.record()["stop"] == "submitted"


def test_changes_are_private_and_the_replica_goes_back(harness: Harness) -> None:
    output, _, environment = harness.run(
        [call("DELETE FROM orders"), call(UPDATE.sol_sql[0], "submit_solution")], UPDATE
    )
    assert output.reward_score == 1.0, "scored on a fresh replica, not on the emptied one"
    assert environment.replicas.counters.leases == 1
    with pytest.raises(InfraError):
        environment.replicas.lookup("anything")
    counted = harness.record()["pool"]
    assert (counted["tools"]["leases"], counted["tools"]["kills"]) == (1, 0)
    assert counted["tools"]["overlay_bytes"] > 0, "the released lease is in the record of its trajectory"
    assert counted["scoring"]["leases"] > 0
    assert not any(environment.take_counters()["tools"].values()), "every event is counted once"


def test_an_agent_worker_is_told_its_number_or_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from birdrl.training.agent_loop import agent_worker_number

    class Context:
        def __init__(self, name: str | None) -> None:
            self.name = name

        def get_actor_name(self) -> str | None:
            return self.name

    monkeypatch.setattr(ray, "get_runtime_context", lambda: Context("agent_loop_worker_3_1a2b3c4d"))
    assert agent_worker_number() == 4
    for name in ("somebody", None):
        monkeypatch.setattr(ray, "get_runtime_context", lambda name=name: Context(name))
        with pytest.raises(InfraError, match="more than one agent worker"):
            agent_worker_number()


@pytest.mark.parametrize(
    ("script", "stop", "reward"),
    [
        ([call("SELECT 1")] * 3, "max_turns", 0.0),
        (["I do not know."], "no_tool_call", 0.0),
        ([call(GOOD), "done"], "no_tool_call", 1.0),
        ([call("SELEC"), call("no_such(", "submit_solution")], "submitted", 0.0),
    ],
)
def test_how_trajectories_end(harness: Harness, script: list[str | Exception], stop: str, reward: float) -> None:
    output, _, _ = harness.run(script)
    assert (harness.record()["stop"], output.reward_score) == (stop, reward)
    assert harness.record()["blame"] in ("none", "policy")


def test_a_turn_that_was_cut_is_closed_by_the_environment(harness: Harness) -> None:
    output, server, _ = harness.run([f"{call('SELECT 1')}<cut>", call(GOOD, "submit_solution")])
    end = harness.tokenizer.eos_token_id
    cut = len(server.calls[1]["prompt_ids"]) - len(output.prompt_ids)
    first = output.response_mask.index(0)
    assert output.response_ids[first] == end
    assert first < cut
    assert harness.text(output, 1).count("<|im_end|>") == 1


def test_the_token_limit_ends_a_trajectory(harness: Harness) -> None:
    output, server, _ = harness.run([call(GOOD)] * 3, max_trajectory_tokens=70)
    assert len(output.response_ids) <= 70
    assert harness.record()["stop"] == "token_limit"
    assert all(request["max_tokens"] <= 64 for request in server.calls)


def test_one_answer_without_tools(harness: Harness) -> None:
    output, server, environment = harness.run([f"The bound.\n```sql\n{GOOD}\n```"], tools=False)
    assert output.reward_score == 1.0
    assert environment.replicas is None
    assert set(output.response_mask) == {1}
    assert "execute_sql" not in harness.tokenizer.decode(server.calls[0]["prompt_ids"])


def test_gold_and_infra_failures_leave_the_group_and_a_record(harness: Harness) -> None:
    output, _, _ = harness.run([call("SELECT 1", "submit_solution")], BAD_GOLD)
    assert output == []
    assert harness.record()["blame"] == "gold"
    output, _, environment = harness.run([InfraError("the server is gone")])
    assert output == []
    assert harness.record() | {"reason": "the server is gone", "blame": "infra"} == harness.record()
    assert environment.replicas.counters.leases == 1


def test_generation_that_takes_too_long_is_not_the_policys_fault(harness: Harness) -> None:
    output, _, _ = harness.run([call(GOOD)], delay_s=5.0, trajectory_timeout_s=0.2)
    assert output == []
    assert harness.record()["blame"] == "infra"


def test_an_unknown_error_is_not_hidden(harness: Harness) -> None:
    with pytest.raises(KeyError):
        harness.run([KeyError("a bug")])

"""Somebody else's verl run, as docs/plug_and_play describes it: composed, and run by a scripted policy without Ray.

The engine's own worker class makes the loops from the example files, as it would in a run.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_shop import BOUNDARY, SCRIPT

from birdrl.errors import InputError
from birdrl.files import read_jsonl
from birdrl.training.rollout_settings import RolloutSettings
from training.scripted import GOOD, ScriptedServer, call

verl = pytest.importorskip("verl")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "plug_and_play"


def documented(after: str) -> list[str]:
    """The overrides in the first code block behind some words of the documentation."""
    text = (ROOT / "docs" / "plug_and_play.md").read_text()
    return text.split(after)[1].split("```")[1].split()


LOOP: list[str] = []
TOOLS_ONLY = documented("verl's own tool loop by these overrides:")

# ChatML as Qwen2.5 writes it, tools as JSON: not birdrl's template.
TEMPLATE = """{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}{{- '\\n</tools><|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- else %}{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""


def compose(folder: Path, *overrides: str) -> Any:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    with initialize_config_dir(str(folder), version_base=None):
        return hydra_compose("verl_run", list(overrides))


class Run:
    """The example in a folder of somebody's, with their databases, their model and one process."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder, self.model = folder / "run", model
        shutil.copytree(EXAMPLE, self.folder)
        database = folder / "databases" / "shop" / "shop.sqlite"
        database.parent.mkdir(parents=True)
        connection = sqlite3.connect(database)
        connection.executescript(SCRIPT)
        connection.close()
        self.edit("birdrl.yaml", "prompts_per_step: 16", "prompts_per_step: 1")
        self.edit("birdrl.yaml", "agent_workers: 4", "agent_workers: 1")
        for file in self.folder.iterdir():
            self.edit(file.name, "/data/run", str(self.folder))
            self.edit(file.name, "/data/databases", str(folder / "databases"))
        self.log = self.folder / "trajectories.jsonl"

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        path.write_text(path.read_text().replace(old, new))

    def worker(self, script: list[Any], *overrides: str) -> Any:
        """The engine's agent-loop worker on the example's configuration, with a scripted policy."""
        from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

        config = compose(
            self.folder, f"actor_rollout_ref.model.path={self.model}", "data.train_batch_size=1",
            "actor_rollout_ref.rollout.agent.num_workers=1",
            *(override.replace("/data/run", str(self.folder)) for override in overrides),
        )  # fmt: skip
        worker = AgentLoopWorker(config, llm_client=None)
        worker.tokenizer.chat_template = TEMPLATE
        worker.llm_client = ScriptedServer(worker.tokenizer, script)
        return worker

    def go(self, worker: Any, row: dict[str, Any]) -> Any:
        """One row through the engine: its padded output, decoded parts included."""
        agent = worker.config.actor_rollout_ref.rollout.agent.default_agent_loop
        trajectory = {"step": 1, "sample_index": 0, "rollout_n": 0, "validate": False}
        task = worker._run_agent_loop({"temperature": 1.0}, trajectory, agent_name=agent, trace=False, **row)
        return asyncio.run(task)


@pytest.fixture
def run(tmp_path: Path, nano_folder: Path) -> Iterator[Run]:
    from birdrl.training.environment import rollout_environment

    rollout_environment.cache_clear()
    theirs = Run(tmp_path, nano_folder)
    yield theirs
    rollout_environment(str(theirs.folder / "birdrl.yaml")).close()
    rollout_environment.cache_clear()


def row(**extra: Any) -> dict[str, Any]:
    """A row of their data, as the engine hands it to a loop."""
    return {
        "raw_prompt": [{"role": "user", "content": "Which orders cost at least 20?"}],
        "reward_model": {"style": "rule", "ground_truth": GOOD}, "data_source": "theirs",
        "extra_info": {"index": 3, **extra}, "index": 3, "uid": "u", "session_id": 0, "global_steps": 1,
        "tools_kwargs": extra.get("tools_kwargs", {}),
    }  # fmt: skip


def sampled(worker: Any, output: Any) -> str:
    ids = [i for i, m in zip(output.response_ids[0].tolist(), output.response_mask[0].tolist(), strict=True) if m]
    return worker.tokenizer.decode(ids)


@pytest.mark.parametrize("overrides", [LOOP, TOOLS_ONLY])
def test_the_engine_accepts_the_example_as_it_stands(overrides: list[str]) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    config = compose(EXAMPLE, *overrides)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    RolloutSettings.read(EXAMPLE / "birdrl.yaml").check_engine(config)
    [loop] = OmegaConf.load(EXAMPLE / "agent_loop.yaml")
    agent = config.actor_rollout_ref.rollout.agent
    assert agent.default_agent_loop == ("tool_agent" if overrides else loop.name)


def test_the_command_line_of_the_documentation_sets_the_same_keys() -> None:
    config = compose(EXAMPLE)
    for key, value in (line.lstrip("+").split("=", 1) for line in documented("on a command line that you have:")):
        found: Any = config
        for part in key.split("."):
            found = found[part]
        assert found == value


def test_their_databases_their_template_our_loop(run: Run) -> None:
    turns = [
        call("CREATE TABLE notes(n)") + call("SELECT COUNT(*) AS orders FROM orders"),
        call(GOOD, "submit_solution"),
    ]
    worker = run.worker(list(turns))
    output = run.go(worker, row(db_id="shop"))
    assert output.reward_score == 1.0
    assert sampled(worker, output) == "".join(f"{turn}<|im_end|>" for turn in turns)
    # The trained tokens lie in the very text that their template makes of the dialogue.
    prompt, response = (
        worker.tokenizer.decode(ids[0][mask.bool()].tolist())
        for ids, mask in (
            (output.prompt_ids, output.attention_mask[0, : output.prompt_ids.shape[1]]),
            (output.response_ids, output.attention_mask[0, output.prompt_ids.shape[1] :]),
        )
    )
    messages = [
        *row()["raw_prompt"],
        {"role": "assistant", "content": turns[0]},
        {"role": "tool", "content": "OK\norders\n5"},
        {"role": "assistant", "content": turns[1]},
    ]
    from birdrl.agent.tools import TOOLS

    whole = worker.tokenizer.apply_chat_template(messages, tools=TOOLS, tokenize=False)
    assert prompt + response == whole.rstrip("\n")
    [record] = read_jsonl(run.log)
    assert (record["reward"], record["index"], record["instance_id"]) == (1.0, 3, "row-3")


def test_an_issue_with_tests_of_its_own(run: Run) -> None:
    worker = run.worker([call(BOUNDARY.issue_sql[0], "submit_solution")])
    output = run.go(worker, row(instance=BOUNDARY.model_dump_json()))
    assert output.reward_score == 0.0
    [record] = read_jsonl(run.log)
    assert (record["instance_id"], record["blame"]) == ("boundary", "policy")


def test_their_reward_function_gets_what_it_needs(run: Run) -> None:
    run.edit("birdrl.yaml", "reward_by: birdrl", "reward_by: engine")
    worker = run.worker([call(GOOD), "I am done."])
    output = run.go(worker, row(db_id="shop") | {"reward_model": {"ground_truth": "theirs"}})
    assert output.reward_score is None
    known = {key: output.extra_fields[key] for key in ("final_sql", "stop", "tool_calls", "tool_errors")}
    assert known == {"final_sql": [GOOD], "stop": "no_tool_call", "tool_calls": 1, "tool_errors": 0}


def test_a_turn_cut_short_ends_the_trajectory_under_their_template(run: Run) -> None:
    run.edit("birdrl.yaml", "max_response_tokens: 3000", "max_response_tokens: 60")
    worker = run.worker([call(GOOD) + " and so on" * 60])
    output = run.go(worker, row(db_id="shop"))
    assert output.reward_score == 1.0
    [record] = read_jsonl(run.log)
    assert (record["stop"], record["response_tokens"]) == ("token_limit", 60)


@pytest.mark.parametrize(
    ("extra", "truth", "message"),
    [
        ({}, GOOD, "row 3: names no database"),
        ({"db_id": "shop"}, "", "row 3: reward_model.ground_truth holds no SQL"),
        ({"db_id": "bank"}, GOOD, "no database 'bank'; known are: shop"),
        ({"instance": '{"instance_id": "x"}'}, GOOD, "row 3, extra_info.instance, db_id: Field required"),
    ],
)
def test_rows_that_cannot_be_used(run: Run, extra: dict[str, Any], truth: str, message: str) -> None:
    worker = run.worker([])
    with pytest.raises(InputError, match=message):
        run.go(worker, row(**extra) | {"reward_model": {"ground_truth": truth}})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["actor_rollout_ref.rollout.n=8"], "group_size is 4, actor_rollout_ref.rollout.n is 8"),
        (["data.train_batch_size=2"], "prompts_per_step is 1, data.train_batch_size is 2"),
        (["data.max_response_length=100"], "agent.max_trajectory_tokens is 5000, data.max_response_length only 100"),
        (["data.max_prompt_length=100"], "agent.max_prompt_tokens is 12000, data.max_prompt_length only 100"),
    ],
)
def test_sizes_that_differ_are_refused(run: Run, overrides: list[str], message: str) -> None:
    worker = run.worker([], *overrides)
    with pytest.raises(Exception, match=message):  # Hydra wraps what a constructor raises
        run.go(worker, row(db_id="shop"))


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read"):
        RolloutSettings.read(tmp_path / "none.yaml")
    path = tmp_path / "s.yaml"
    path.write_text((EXAMPLE / "birdrl.yaml").read_text() + "\nreplicas: 3\n")
    with pytest.raises(InputError, match=r"s\.yaml, replicas: Extra inputs"):
        RolloutSettings.read(path)


def test_their_words_for_the_tools(run: Run) -> None:
    from birdrl.training.agent_loop import described_tools

    class Tool:
        def __init__(self, name: str, parameter: str = "sql") -> None:
            from verl.tools.schemas import OpenAIFunctionToolSchema

            function = {"name": name, "description": "Theirs.", "parameters": {
                "type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}}  # fmt: skip
            self.tool_schema = OpenAIFunctionToolSchema.model_validate({"type": "function", "function": function})

    schemas = described_tools([Tool("execute_sql"), Tool("submit_solution")])
    assert [schema["function"]["description"] for schema in schemas] == ["Theirs.", "Theirs."]
    for tools, message in (
        ([Tool("search"), Tool("execute_sql")], "tool 'search'; this loop has"),
        ([Tool("execute_sql", "query"), Tool("submit_solution")], "each with a parameter 'sql'"),
        ([Tool("execute_sql")], "both execute_sql and submit_solution"),
    ):
        with pytest.raises(InputError, match=message):
            described_tools(tools)


# --- only the tools, in the engine's own tool loop


def in_their_loop(**create: Any) -> dict[str, Any]:
    kwargs = {"create_kwargs": create}
    return row(tools_kwargs={"execute_sql": kwargs, "submit_solution": kwargs})


def free(run: Run) -> int:
    """Replicas that can be leased, when nobody holds a trajectory any more."""
    from birdrl.training.environment import rollout_environment

    gc.collect()
    environment = rollout_environment(str(run.folder / "birdrl.yaml"))
    pool = environment.replicas
    assert pool is not None
    leases = [pool.acquire(f"probe-{n}", environment.store.path("shop")) for n in range(pool.config.workers)]
    for lease in leases:
        lease.release()
    return len(leases)


def test_the_engines_tool_loop_with_our_tools(run: Run) -> None:
    script = [
        call("CREATE TABLE marks(n)") + call("INSERT INTO marks VALUES (7)"),
        call("SELECT n AS mark FROM marks") + call("SELEC"),
        call(GOOD, "submit_solution"),
        "Done.",
    ]
    worker = run.worker(script, *TOOLS_ONLY)
    output = run.go(worker, in_their_loop(db_id="shop"))
    text = worker.tokenizer.decode(output.response_ids[0].tolist())
    assert "mark\n7" in text
    assert "Error: near" in text
    assert "The task has ended: submitted." in text
    known = {key: output.extra_fields[key] for key in ("final_sql", "stop", "tool_calls", "tool_errors")}
    assert known == {"final_sql": [GOOD], "stop": "submitted", "tool_calls": 5, "tool_errors": 1}
    from birdrl.training.environment import rollout_environment

    pool = rollout_environment(str(run.folder / "birdrl.yaml")).replicas
    assert pool is not None
    assert pool.counters.leases == 1, "one replica for all calls of the trajectory"
    del output
    assert free(run) == 4


def test_failed_machinery_is_no_observation_in_their_loop(run: Run) -> None:
    from birdrl.training.verl_tools import TrajectoryLost

    worker = run.worker([call("SELECT 1"), "never"], *TOOLS_ONLY)
    broken = BOUNDARY.model_copy(update={"preprocess_sql": ["DROP TABLE nope"]})
    with pytest.raises(TrajectoryLost, match="preprocess_sql 'DROP TABLE nope'"):
        run.go(worker, in_their_loop(instance=broken.model_dump_json()))
    assert free(run) == 4


# --- the core install

CORE = {"apsw", "sqlglot", "pydantic", "numpy", "sklearn", "yaml", "tqdm"}
ENGINE = {"verl", "torch", "transfer_queue"}


def imported_at_start(*roots: str) -> set[str]:
    """Packages that importing these modules of ours imports, read off their text; what functions import is left out."""
    todo, seen, packages = [*roots, "birdrl"], set(), set()
    while todo:
        module = todo.pop()
        path = ROOT / (module.replace(".", "/") + ".py")
        path = path if path.is_file() else ROOT / module.replace(".", "/") / "__init__.py"
        if module in seen or not path.is_file():
            continue
        seen.add(module)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            todo += [name for name in names if name.startswith("birdrl")]
            packages.update(name.split(".")[0] for name in names)
    return packages - {"birdrl"} - set(sys.stdlib_module_names)


def test_the_core_beside_the_engine_is_enough() -> None:
    found = imported_at_start(*(f"birdrl.training.{name}" for name in ("agent_loop", "sampler", "verl_tools")))
    assert {"apsw", "yaml", "verl"} <= found, "the search works"
    assert found <= CORE | ENGINE

"""One training run of a stage: data, engine, resume, export."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from birdrl.agent.prompting import load_prompts
from birdrl.errors import InputError
from birdrl.files import read_jsonl, write_json, write_jsonl, write_text
from birdrl.gym.instance import Instance, read_instances
from birdrl.gym.templates import TemplateStore
from birdrl.params import RewardParams, RlParams, SftParams
from birdrl.stages.registry import StageContext
from birdrl.training import results
from birdrl.training.checkpoints import export_policy, latest_step, run_folder
from birdrl.training.data import DataStats, Samples, write_imitation_data, write_rollout_data
from birdrl.training.engine import EngineRun, run_engine
from birdrl.training.policy import load_tokenizer
from birdrl.training.recipes import RL_MODULE, SFT_MODULE, grpo_overrides, sft_overrides, sft_steps
from birdrl.training.rollout_settings import RolloutSettings

LOOP_CLASS = "birdrl.training.agent_loop.SqlAgentLoop"


@dataclass(frozen=True)
class Layout:
    """Files of a run that survive a kill. Every attempt has a folder of its own for log and metrics."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def data(self) -> Path:
        return self.folder / "train.parquet"

    def attempts(self) -> list[Path]:
        return sorted(self.folder.glob("attempt-*"))

    def next_attempt(self) -> Path:
        attempt = self.folder / f"attempt-{len(self.attempts()):04d}"
        attempt.mkdir()
        return attempt


def train_sft(context: StageContext, params: SftParams, *, policy: str, sources: Sequence[Samples]) -> None:
    """Imitation of the assistant turns in `sources`, from the policy of stage `policy`."""
    start = context.input(policy) / "model"
    engine = context.params.engine
    shown = [source.tools for source in sources]
    settings = {"sft": params.model_dump(), "seed": context.seed, "device": engine.device, "tools": shown}
    inputs = {"policy": start} | {source.path.stem: source.path for source in sources}
    layout = Layout(run_folder(context.work, inputs, settings).resolve())
    stats = write_imitation_data(
        sources, layout.data, load_tokenizer(start), max_length=params.max_length, seed=context.seed
    )
    steps = sft_steps(params, stats.rows)

    def overrides(_attempt: Path) -> list[str]:
        return sft_overrides(
            context.name, params, engine, model=start.resolve(), data=layout.data,
            checkpoints=layout.checkpoints, steps=steps,
        )  # fmt: skip

    _train(context, layout, SFT_MODULE, steps, overrides)
    export_policy(layout.checkpoints / f"global_step_{steps}", start, context.out / "model")
    rows = results.step_rows(attempt / "metrics.jsonl" for attempt in layout.attempts())
    summary = results.sft_summary(rows, stats.summary(), _parameters(context.out / "model"))
    _finish(context, layout, rows, summary)


def train_rl(context: StageContext, params: RlParams, *, policy: str, tools: bool) -> None:
    """GRPO on the audited training instances from the policy of stage `policy`, which stays the reference."""
    start, instances = context.input(policy) / "model", context.input("audit") / "train.jsonl"
    templates = context.input("templates")
    agent, engine = context.params.agent, context.params.engine
    settings = {
        "rl": params.model_dump(exclude={"max_failure_share"}), "agent": agent.model_dump(), "seed": context.seed,
        "device": engine.device, "tools": tools,
    }  # fmt: skip
    inputs = {"policy": start, "instances": instances, "templates": templates / "manifest.json"}
    layout = Layout(run_folder(context.work, inputs, settings).resolve())
    stats = _rollout_data(context, params, layout, start, instances, templates, tools=tools)

    def overrides(attempt: Path) -> list[str]:
        rollout = RolloutSettings(
            agent=agent, tools=tools, templates=str(templates.resolve()), seed=context.seed,
            group_size=params.group_size, prompts_per_step=params.prompts_per_step,
            max_failure_share=params.max_failure_share, log=str(attempt / "trajectories.jsonl"),
            agent_workers=engine.agent_workers, reward=_with_absolute_cache(params.reward),
        )  # fmt: skip
        # Outside the attempt's folder: logged configuration, paths included, stays the same when a run resumes.
        settings_file, loop_config = layout.folder / "rollout.json", layout.folder / "agent_loop.yaml"
        rollout.write(settings_file)
        loop = [{"name": "birdrl", "_target_": LOOP_CLASS, "settings": str(settings_file)}]
        write_text(loop_config, yaml.safe_dump(loop))
        return grpo_overrides(
            context.name, params, engine, rollout, model=start.resolve(), data=layout.data, folder=layout.folder,
            settings=settings_file, loop_config=loop_config,
        )  # fmt: skip

    _train(context, layout, RL_MODULE, params.steps, overrides)
    export_policy(layout.checkpoints / f"global_step_{params.steps}" / "actor", start, context.out / "model")
    rows = results.step_rows(attempt / "metrics.jsonl" for attempt in layout.attempts())
    records = _records(layout)
    for step, rollouts in sorted(results.rollout_rows(layout.folder / "rollouts", records).items()):
        write_jsonl(context.out / "rollouts" / f"{step}.jsonl", rollouts)
    write_jsonl(context.out / "failures.jsonl", results.failure_rows(records))
    summary = results.rl_summary(rows, records, stats.summary(), _parameters(context.out / "model"))
    _finish(context, layout, rows, summary)


def _rollout_data(
    context: StageContext,
    params: RlParams,
    layout: Layout,
    start: Path,
    instances: Path,
    templates: Path,
    *,
    tools: bool,
) -> DataStats:
    train = read_instances(instances)
    if not train:
        raise InputError(f"{instances}: no training instances")
    check_gate(params.reward, train)
    store = TemplateStore(templates)
    schemas = {db_id: store.schema(db_id) for db_id in sorted({instance.db_id for instance in train})}
    agent = context.params.agent
    return write_rollout_data(
        train, schemas, layout.data, load_tokenizer(start), load_prompts(agent.prompts), tools=tools,
        count=params.steps * params.prompts_per_step, max_prompt_tokens=agent.max_prompt_tokens, seed=context.seed,
    )  # fmt: skip


def _with_absolute_cache(reward: RewardParams) -> RewardParams:
    """The engine works in a folder of its own."""
    cache = str(Path(reward.endpoint.cache).resolve())
    return reward.model_copy(update={"endpoint": reward.endpoint.model_copy(update={"cache": cache})})


def check_gate(reward: RewardParams, instances: Iterable[Instance]) -> None:
    """Raises InputError when a trajectory that passes no test of some instance could earn as much as one test."""
    for instance in instances:
        tests = max(1, len(instance.test_cases))
        if 0 < reward.most_auxiliary >= 1 / tests:
            raise InputError(
                f"reward.{reward.auxiliary}: its weights allow {reward.most_auxiliary:g} to a trajectory that passes "
                f"no test, but {instance.instance_id} has {tests} tests and passing one earns {1 / tests:g}; lower the "
                "weights below that"
            )


def _train(
    context: StageContext, layout: Layout, module: str, steps: int, overrides: Callable[[Path], list[str]]
) -> None:
    first = latest_step(layout.checkpoints)
    if first >= steps:  # killed between the engine's end and the export
        return
    attempt = layout.next_attempt()
    run_engine(EngineRun(context.name, module, overrides(attempt), attempt, first, steps), context.params.engine)


def _records(layout: Layout) -> list[dict[str, Any]]:
    """The agent loop's records, a step that was done again replacing the earlier one."""
    steps: dict[int, list[dict[str, Any]]] = {}
    for attempt in layout.attempts():
        log = attempt / "trajectories.jsonl"
        again: dict[int, list[dict[str, Any]]] = {}
        for record in read_jsonl(log) if log.exists() else ():
            again.setdefault(record["step"], []).append(record)
        steps |= again
    return [
        record for step in sorted(steps) for record in sorted(steps[step], key=lambda r: (r["index"], r["session"]))
    ]


def _parameters(model: Path) -> int:
    from safetensors import safe_open

    total = 0
    for path in sorted(model.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - not a mapping
                size = 1
                for extent in tensors.get_slice(name).get_shape():
                    size *= extent
                total += size
    return total


def _finish(context: StageContext, layout: Layout, rows: list[dict[str, Any]], summary: dict[str, float]) -> None:
    write_jsonl(context.out / "metrics.jsonl", rows)
    write_json(context.out / "summary.json", summary)
    shutil.rmtree(layout.folder)

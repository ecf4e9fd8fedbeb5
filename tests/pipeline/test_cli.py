"""The command `birdrl`: what it prints, and its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from birdrl.active import Active, read_active, write_active
from birdrl.cli import COMMANDS, main
from birdrl.errors import InputError
from birdrl.params import Params
from birdrl.stages import registry
from birdrl.stages.execute import execute_stage

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stage(monkeypatch):
    """Puts a function in the place of stage `templates`."""

    def put(function) -> None:
        monkeypatch.setattr(registry, "import_module", lambda _name: type("module", (), {"run": function}))

    return put


def test_every_command_has_examples(capsys):
    for words in [["--help"], *([command, "--help"] for command in COMMANDS)]:
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
        assert "examples:\n  birdrl" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "gmy"], "unknown stage 'gmy'"),
        (["run", "templates", "--profile", "none"], "no profile 'none'; profiles are: demo, six-gym, smoke"),
        (["activate", "--profile", "smoke", "--set", "gym.train_instanzes=5"], "gym.train_instanzes: unknown key"),
        (["activate", "--set", "gym.train_instances=none"], "gym.train_instances"),
        (["activate", "--set", "gym.train_instances"], "expected KEY=VALUE"),
        (["params", "rl"], "no section 'rl'; sections are: seed, agent"),
    ],
)
def test_wrong_input_is_one_message_and_status_2(checkout, capsys, words, named):
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert named in shown
    assert "Traceback" not in shown
    assert not (checkout / "active.yaml").exists()


def test_params_shows_sentence_type_default_and_value(checkout, capsys):
    write_active(Active("smoke", {"rl_agentic.steps": 9}))
    assert main(["params", "rl_agentic"]) == 0
    shown = capsys.readouterr().out
    assert "  steps = 9\n      GRPO steps.  [int; required]" in shown
    assert "  kl_coef = 0.01\n      Weight of the KL term, beta of Eq. 4.  [float; default 0.01]" in shown
    assert "templates" not in shown


def test_every_parameter_has_a_sentence():
    def check(model, where: str) -> None:
        for name, field in model.model_fields.items():
            nested = hasattr(field.annotation, "model_fields")
            assert nested or (field.description or "").endswith("."), f"{where}{name}"
            if nested:
                check(field.annotation, f"{where}{name}.")

    check(Params, "")


@pytest.mark.parametrize(
    "overrides",
    [{}, {"seed": 3}, {"gym.shares": {"query": 1.0}}, {"gym.eval_share": 0.5, "evaluate.limit": None}],
)
def test_active_yaml_gives_back_what_was_written(checkout, overrides):
    written = write_active(Active("smoke", overrides))
    assert read_active() == Active("smoke", overrides)
    assert read_active().params() == written
    every = yaml.safe_load((checkout / "active.yaml").read_text())["overrides"]
    assert set(every) == set(Params.model_fields)  # DVC takes a missing key for a change


def test_a_changed_file_outside_the_outputs_shows_in_active_yaml(checkout):
    gold = checkout / "gold.json"
    states = []
    for text in ("[]", "[1]"):
        gold.write_text(text)
        write_active(Active("smoke", {"gym.gold_sql": ["gold.json"]}))
        states.append(yaml.safe_load((checkout / "active.yaml").read_text())["external"])
    assert states[0]["gym"] != states[1]["gym"]
    assert states[0]["templates"] is None


def test_a_failed_stage_leaves_the_old_outputs_and_no_half_written_ones(checkout, stage):
    def fail(ctx) -> None:
        (ctx.out / "half").write_text("x")
        raise ValueError("planted")

    stage(lambda ctx: (ctx.out / "old").touch())
    out = execute_stage("templates", Active("smoke"))
    stage(fail)
    with pytest.raises(ValueError, match="planted"):
        execute_stage("templates", Active("smoke"))
    assert [path.name for path in out.iterdir()] == ["old"]
    assert [path.name for path in out.parent.iterdir()] == ["work", "templates"] or not list(out.parent.glob(".*"))


def test_leftovers_of_a_killed_run_are_removed(checkout, stage):
    left = checkout / "artifacts/smoke/.gym.part"
    left.mkdir(parents=True)
    (left / "train.jsonl").write_text("half")
    stage(lambda ctx: (ctx.out / "x").touch())
    execute_stage("templates", Active("smoke"))
    assert not left.exists()


def test_work_survives_until_the_stage_has_emptied_it(checkout, stage):
    stage(lambda ctx: ((ctx.out / "x").touch(), (ctx.work / "checkpoint").touch()))
    execute_stage("templates", Active("smoke"))
    assert (checkout / "artifacts/smoke/work/templates/checkpoint").exists()
    stage(lambda ctx: ((ctx.out / "x").touch(), (ctx.work / "checkpoint").unlink()))
    execute_stage("templates", Active("smoke"))
    assert not (checkout / "artifacts/smoke/work/templates").exists()


def test_a_stage_cannot_read_a_section_it_does_not_declare(checkout, stage):
    stage(lambda ctx: ctx.params.rl_agentic)
    with pytest.raises(AttributeError, match="rl_agentic"):
        execute_stage("templates", Active("smoke"))


def test_a_missing_input_names_folder_and_remedy(checkout):
    with pytest.raises(InputError, match=r"templates: missing input of stage gym.*birdrl run templates"):
        execute_stage("gym", Active("smoke"))


def test_a_second_run_in_the_same_checkout_is_refused(checkout):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from birdrl.stages.lock import checkout_lock\n"
            "with checkout_lock('the first run'):\n"
            "    print('held', flush=True); sys.stdin.read()\n",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(InputError, match=rf"in use by the first run \(process {holder.pid}\)"):
            write_with_lock()
    finally:
        holder.stdin.close()
        holder.wait(10)
    write_with_lock()


def write_with_lock() -> None:
    from birdrl.stages.lock import checkout_lock

    with checkout_lock("the second run"):
        write_active(Active("smoke"))

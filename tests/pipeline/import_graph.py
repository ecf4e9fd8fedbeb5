"""Which of the project's source files a stage needs, read off the import statements."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from birdrl.stages.registry import STAGES

ROOT = Path(__file__).parents[2]

# They decide that a stage runs and where its outputs go, not what stands in them.
WIRING = {
    "birdrl/__init__.py",
    "birdrl/errors.py",
    "birdrl/stages/__init__.py",
    "birdrl/stages/registry.py",
    "birdrl/stages/execute.py",
    "birdrl/stages/supervisor.py",
    "tasks/__init__.py",
}

# All training runs share birdrl/training/runs.py, which names the rollout loop; imitation never starts it.
_NO_ROLLOUTS = {"birdrl/training/agent_loop.py"}
NOT_REACHED = {"sft_reasoning": _NO_ROLLOUTS, "sft_tools": _NO_ROLLOUTS}


def files_of_stage(stage: str) -> set[str]:
    """Source files, relative to the root, that the stage's function can import, wiring left out.

    birdrl/params.py belongs to every stage: it holds the defaults of what stands in no profile.
    """
    todo = [_file(STAGES[stage].function.split(":")[0]), "birdrl/params.py"]
    found: set[str] = set()
    while todo:
        path = todo.pop()
        if path is None or path in found or path in NOT_REACHED.get(stage, ()):
            continue
        found.add(path)
        if path not in WIRING:
            todo.extend(_file(module) for module in _imports(path))
    return {path for path in found if path not in WIRING}


@cache
def _imports(path: str) -> tuple[str, ...]:
    package = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    modules: list[str] = []
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write it out"
            modules += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("birdrl."):
            modules.append(node.value.split(":")[0])  # modules that an engine or a subprocess imports by name
    wanted = [module for module in modules if module.split(".")[0] in ("birdrl", "tasks") and module != package]
    parents = [module.rsplit(".", depth)[0] for module in wanted for depth in range(module.count("."))]
    return tuple(dict.fromkeys(wanted + parents))


def _file(module: str) -> str | None:
    base = Path(module.replace(".", "/"))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if (ROOT / candidate).is_file():
            return str(candidate)
    return None


if __name__ == "__main__":
    for name in STAGES:
        print(name, *sorted(files_of_stage(name)), sep="\n    ")

"""Stage policy_init: the model that training starts from, in one form whatever its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from birdrl.errors import InputError
from birdrl.stages.registry import StageContext


def run(context: StageContext) -> None:
    """Write `model/` (Hugging Face form, float32, with the chat template) and `policy.json`."""
    # Imported here: only this stage's process needs torch.
    from birdrl.training.policy import save_policy, write_policy_record

    params = context.params.policy_init
    if params.source == "nano":
        from birdrl.training.nano import build_model, build_tokenizer

        tokenizer = build_tokenizer()
        model = build_model(tokenizer, context.seed)
    elif params.source == "smollm2":
        from birdrl.training.smollm2 import load_smollm2

        model, tokenizer = load_smollm2()
    else:
        if not params.path:
            raise InputError("policy_init.path is empty; source 'huggingface' needs the model's folder")
        model, tokenizer = _load_folder(Path(params.path))
    folder = context.out / "model"
    save_policy(model, tokenizer, folder)
    write_policy_record(context.out / "policy.json", folder, params.source, model.num_parameters())


def _load_folder(path: Path) -> tuple[Any, Any]:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    from birdrl.training.policy import check_folder, check_tokenizer, load_tokenizer

    check_folder(path)
    tokenizer = load_tokenizer(path)
    check_tokenizer(tokenizer, str(path))
    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{path}: the weights cannot be loaded ({error})") from error
    return model, tokenizer

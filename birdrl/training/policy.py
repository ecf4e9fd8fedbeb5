"""Policies as Hugging Face folders: saving one so that every stage reads the same tokens, and checking one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from birdrl.agent.prompting import load_prompts
from birdrl.agent.templating import CHAT_TEMPLATE, CHAT_TEMPLATE_SHA256, END, attach_template, observation_suffix
from birdrl.agent.tools import TOOLS
from birdrl.errors import InputError
from birdrl.files import sha256_file, write_json

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a policy folder, left-padding, with the chat template attached. Raises InputError."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, padding_side="left")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder}: no usable tokenizer ({error}); the folder needs tokenizer.json") from error
    attach_template(tokenizer)
    return tokenizer


def check_folder(folder: Path) -> None:
    """Raise InputError unless `folder` holds a causal language model in Hugging Face form."""
    from transformers import AutoConfig

    if not folder.is_dir():
        raise InputError(f"policy_init.path: {str(folder)!r} is not a folder; give one in Hugging Face form")
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: no config.json; policy_init.path must be a folder in Hugging Face form")
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise InputError(f"{folder}: no weights; one of {', '.join(WEIGHTS)} is needed")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder}/config.json: {error}") from error
    architectures = config.architectures or []
    if not any(name.endswith("ForCausalLM") for name in architectures):
        raise InputError(f"{folder}/config.json: architectures is {architectures}; a ...ForCausalLM model is needed")


def check_tokenizer(tokenizer: Any, where: str) -> None:
    """Raise InputError unless the tokenizer ends turns as the chat template does and has a padding token."""
    ids = tokenizer.encode(END, add_special_tokens=False)
    if len(ids) != 1:
        raise InputError(f"{where}: {END} is {len(ids)} tokens; a ChatML tokenizer, where it is one, is needed")
    if tokenizer.eos_token_id != ids[0]:
        raise InputError(
            f"{where}: the end token is {tokenizer.eos_token!r}, but the chat template ends a turn with {END}; "
            "set eos_token in tokenizer_config.json"
        )
    if tokenizer.pad_token_id is None:
        raise InputError(f"{where}: no pad_token; set it in tokenizer_config.json")


def save_policy(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write model (its own dtype), tokenizer and chat template, then prove that a reload gives the same ids."""
    check_tokenizer(tokenizer, str(folder))
    attach_template(tokenizer)
    model.config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = tokenizer.pad_token_id
    if model.generation_config is not None:
        model.generation_config.eos_token_id = tokenizer.eos_token_id
        model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for text in _probe_texts():
        saved, loaded = (t.encode(text, add_special_tokens=False) for t in (tokenizer, load_tokenizer(folder)))
        if saved != loaded:
            raise InputError(f"{folder}: the tokenizer gives other ids after a reload, for example for {text[:60]!r}")


def policy_record(folder: Path, source: str, parameters: int) -> dict[str, Any]:
    """What runs record about a policy."""
    return {
        "source": source,
        "parameters": parameters,
        "chat_template_sha256": CHAT_TEMPLATE_SHA256,
        "tokenizer_sha256": sha256_file(folder / "tokenizer.json"),
        "prompts": load_prompts("compact").hashes,
    }


def write_policy_record(target: Path, folder: Path, source: str, parameters: int) -> None:
    """Write `policy.json`."""
    write_json(target, policy_record(folder, source, parameters))


def _probe_texts() -> list[str]:
    tool_names = " ".join(tool["function"]["name"] for tool in TOOLS)
    return [
        CHAT_TEMPLATE,
        observation_suffix("id | name\n1 | x\n(3 more rows)"),
        f"SELECT t1.a, COUNT(*) FROM orders_2024 AS t1 WHERE b >= 10.5 AND c LIKE '%x%';\n\n\t{tool_names} it's é 1234",
    ]

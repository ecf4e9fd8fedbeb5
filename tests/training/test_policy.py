"""Starting policies: the nano model, the packaged one, and folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from birdrl.agent.templating import CHAT_TEMPLATE, CHAT_TEMPLATE_SHA256
from birdrl.errors import InputError
from birdrl.files import read_json, sha256_file
from birdrl.params import Params, validate_params
from birdrl.stages import policy_init
from birdrl.training.smollm2 import gguf_file
from training.layout import PARAMS, make_context

TEXTS = [
    "SELECT t1.a_2 FROM x1 WHERE b >= 10.50\n\n  AND it's = 'é ü'",
    "<|im_start|>user\nhi<|im_end|>\n",
    "\t{}  [1234]",
]


def test_reloading_the_nano_tokenizer_gives_the_same_ids(nano_folder: Path) -> None:
    from transformers import AutoTokenizer

    from birdrl.training.nano import build_tokenizer

    built, loaded = build_tokenizer(), AutoTokenizer.from_pretrained(nano_folder)
    for text in TEXTS:
        ids = built.encode(text, add_special_tokens=False)
        assert loaded.encode(text, add_special_tokens=False) == ids
        assert loaded.decode(ids) == text
    assert loaded.chat_template == CHAT_TEMPLATE
    assert loaded.eos_token == "<|im_end|>"


def test_the_nano_policy_follows_the_seed(tmp_path: Path, nano_folder: Path) -> None:
    from birdrl.training.nano import build_model, build_tokenizer
    from birdrl.training.policy import save_policy

    for seed in (3, 4):
        save_policy(build_model(build_tokenizer(), seed), build_tokenizer(), tmp_path / str(seed))
    digests = [sha256_file(f / "model.safetensors") for f in (nano_folder, tmp_path / "3", tmp_path / "4")]
    assert digests[0] == digests[1] != digests[2]
    assert sha256_file(nano_folder / "tokenizer.json") == sha256_file(tmp_path / "3" / "tokenizer.json")


def from_folder(folder: Path | str) -> Params:
    return validate_params(PARAMS | {"policy_init": {"source": "huggingface", "path": str(folder)}}, "test")


def test_a_folder_becomes_a_policy_with_the_template(tmp_path: Path, nano_folder: Path) -> None:
    context = make_context("policy_init", tmp_path, from_folder(nano_folder))
    policy_init.run(context)
    record = read_json(context.out / "policy.json")
    assert record["source"] == "huggingface"
    assert record["chat_template_sha256"] == CHAT_TEMPLATE_SHA256
    assert 500_000 < record["parameters"] < 1_000_000


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: shutil.rmtree(f), "is not a folder"),
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 20), "weights cannot be loaded"),
        (lambda f: set_key(f / "config.json", "architectures", ["BertModel"]), "ForCausalLM model is needed"),
        (lambda f: set_key(f / "tokenizer_config.json", "eos_token", "<|endoftext|>"), "the end token is"),
    ],
)
def test_an_unusable_folder_is_explained(tmp_path: Path, nano_folder: Path, spoil: Any, message: str) -> None:
    folder = tmp_path / "given"
    shutil.copytree(nano_folder, folder)
    spoil(folder)
    with pytest.raises(InputError, match=message):
        policy_init.run(make_context("policy_init", tmp_path, from_folder(folder)))


def test_a_folder_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"policy_init\.path is empty"):
        policy_init.run(make_context("policy_init", tmp_path, from_folder("")))


def set_key(path: Path, key: str, value: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))


@pytest.mark.slow
def test_the_packaged_policy_ends_turns_as_the_template_does(tmp_path: Path) -> None:
    try:
        gguf_file()
    except InputError as error:
        pytest.skip(str(error))
    from birdrl.training.policy import load_tokenizer

    params = validate_params(PARAMS | {"policy_init": {"source": "smollm2"}}, "test")
    context = make_context("policy_init", tmp_path, params)
    policy_init.run(context)
    record = read_json(context.out / "policy.json")
    assert record["parameters"] == 134_515_008
    tokenizer = load_tokenizer(context.out / "model")
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|im_end|>")
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text

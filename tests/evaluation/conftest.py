"""A real template store, pool and scorer over the toy shop, and a random tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from toy_shop import build_store
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from birdrl.agent.templating import END
from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> TemplateStore:
    return build_store(tmp_path_factory.mktemp("templates"))


@pytest.fixture(scope="session")
def pool() -> Iterator[ReplicaPool]:
    with ReplicaPool(PoolConfig(workers=2)) as pool:
        yield pool


@pytest.fixture(scope="session")
def scorer(store: TemplateStore, pool: ReplicaPool) -> ExecutionScorer:
    return ExecutionScorer(store, pool)


CORPUS = ["SELECT a FROM t", "fix: SELECT count(*) FROM orders WHERE price > 20", "x", "UPDATE t SET a = 1"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", END]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=END, pad_token="<|endoftext|>")
    torch.manual_seed(3)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("model")
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight[tokenizer.eos_token_id] *= 6  # a random model would hardly ever end a turn
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path

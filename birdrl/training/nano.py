"""A policy of under a million parameters, built on the spot: for trying the machinery, not for learning."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

from birdrl.agent.prompting import load_prompts
from birdrl.agent.tools import TOOLS
from birdrl.files import canonical_json

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 1536
_STATEMENTS = (
    "SELECT {c}, COUNT(*) FROM {t} GROUP BY {c} HAVING COUNT(*) > {n} ORDER BY COUNT(*) DESC LIMIT {n}",
    "SELECT DISTINCT t1.{c} FROM {t} AS t1 JOIN {u} AS t2 ON t1.id = t2.{t}_id WHERE t2.{d} >= {n}",
    "SELECT AVG({d}), MAX({d}), MIN({d}), SUM({d}) FROM {t} WHERE {c} LIKE '%{c}%' AND {d} BETWEEN {n} AND 10{n}",
    "SELECT {c} FROM {t} WHERE {d} IS NOT NULL AND id NOT IN (SELECT {t}_id FROM {u})",
    "WITH r AS (SELECT {c}, ROW_NUMBER() OVER (PARTITION BY {d} ORDER BY {c}) AS rank FROM {t}) SELECT * FROM r",
    "SELECT CASE WHEN {d} < {n} THEN 'low' ELSE 'high' END AS {c} FROM {t} LEFT JOIN {u} ON {u}.id = {t}.{u}_id",
    "UPDATE {t} SET {d} = {d} + {n} WHERE {c} = '{c}'; DELETE FROM {u} WHERE id = {n}",
    "INSERT INTO {t} (id, {c}, {d}) VALUES ({n}, '{c}', {n}) ON CONFLICT (id) DO UPDATE SET {c} = excluded.{c}",
    "CREATE TABLE {t} (id INTEGER PRIMARY KEY, {c} TEXT NOT NULL, {d} REAL, FOREIGN KEY ({u}_id) REFERENCES {u}(id))",
    "SELECT strftime('%Y-%m', {c}) FROM {t} UNION SELECT {d} FROM {u} EXCEPT SELECT COALESCE({c}, '') FROM {t}",
)
_TABLES = ("orders", "customers", "products", "employees", "students", "courses", "flights", "accounts", "patients")
_COLUMNS = ("name", "status", "city", "country", "created_at", "category", "title", "email", "department")
_NUMBERS = ("price", "quantity", "amount", "age", "salary", "score", "capacity", "balance", "total")


def corpus() -> list[str]:
    """Texts like those the policy will see: prompts, tool schemas and SQL. Always the same."""
    texts = list(load_prompts("compact").texts.values()) + [canonical_json(tool) for tool in TOOLS] * 4
    texts += ['<tool_call>\n{"name": "execute_sql", "arguments": {"sql": "SELECT 1"}}\n</tool_call>'] * 8
    texts += ["<tool_response>\nid | name\n1 | x\n(3 more rows)\nError: no such column: x\n</tool_response>"] * 8
    pick = random.Random(0)
    for statement, table, column in itertools.product(_STATEMENTS, _TABLES, _COLUMNS):
        filled = statement.format(
            t=table, u=pick.choice(_TABLES), c=column, d=pick.choice(_NUMBERS), n=pick.randrange(1, 100)
        )
        texts.append(f"{table}(id, {column}, {pick.choice(_NUMBERS)})\nThe query should return every {column}.")
        texts.append(f"```sql\n{filled}\n```")
    return texts


def build_tokenizer() -> Any:
    """A byte-level BPE tokenizer in Qwen2's form, trained on `corpus()`.

    The pre-tokenizer is Qwen2's own: AutoTokenizer puts that one back whenever it loads a folder of model type
    qwen2, so a tokenizer trained with any other would give other ids after a reload.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    form = Qwen2Tokenizer().backend_tokenizer
    raw = Tokenizer(models.BPE())
    raw.normalizer, raw.pre_tokenizer, raw.decoder = form.normalizer, form.pre_tokenizer, form.decoder
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    raw.train_from_iterator(corpus(), trainer)
    model = json.loads(raw.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=model["vocab"],
        merges=[tuple(merge) for merge in model["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )


def build_model(tokenizer: Any, seed: int) -> Any:
    """A randomly initialised Qwen2 of four layers; the same seed gives the same weights."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config).to(torch.float32)

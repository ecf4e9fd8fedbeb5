"""The index from papers to code names things that exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INDEX = (ROOT / "docs" / "paper_index.md").read_text(encoding="utf-8")
FUNCTIONS = sorted(set(re.findall(r"`(birdrl[\w.]*):(\w+)`", INDEX)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/.]+)`", INDEX)))


def test_the_index_was_read():
    assert len(FUNCTIONS) > 10
    assert len(TESTS) > 10


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_function_exists(module, name):
    assert hasattr(import_module(module), name)


@pytest.mark.parametrize("path", TESTS)
def test_test_file_exists(path):
    assert (ROOT / path).is_file()

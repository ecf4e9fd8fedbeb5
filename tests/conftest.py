"""Fixtures that several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def nano_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from birdrl.training.nano import build_model, build_tokenizer
    from birdrl.training.policy import save_policy

    folder = tmp_path_factory.mktemp("nano") / "model"
    tokenizer = build_tokenizer()
    save_policy(build_model(tokenizer, 3), tokenizer, folder)
    return folder

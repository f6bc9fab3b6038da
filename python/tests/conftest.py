"""Models for the tests, made once: small ones that learnt a little, in a few seconds."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

import tril

SMALL: dict[str, Any] = dict(
    vocab=400, model=32, heads=2, feed_forward=64, encoder_layers=1, decoder_layers=1, max_length=64, max_tokens=40,
    updates=150, batch_tokens=512, warm_up=20, rate=0.01, dropout=0.0, evaluate_every=1000, device="cpu", progress=False)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "en-hi"
    tril.train(folder, pairs=tril.phrasebook()[0][:1500], **SMALL)
    return str(folder)


@pytest.fixture(scope="session")
def generator_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "english"
    pairs = [("", english) for english, _ in tril.phrasebook()[0][:1500]]
    tril.train(folder, pairs=pairs, **{**SMALL, "encoder_layers": 0})
    return str(folder)


@pytest.fixture(scope="session")
def demo_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The model of `tril demo`, half a minute's work; TRIL_DEMO_MODEL names one that is there."""
    found = os.environ.get("TRIL_DEMO_MODEL")
    if found:
        return found
    folder = tmp_path_factory.mktemp("demo") / "demo-model"
    settings: dict[str, Any] = {name.replace("-", "_"): value for name, value in tril._tril.demo_settings()}
    tril.train(folder, pairs=tril.phrasebook()[0], device="cpu", progress=False, **settings)
    return str(folder)


@pytest.fixture(scope="session")
def translator(model_path: str) -> tril.Translator:
    return tril.Translator(model_path, device="cpu")


@pytest.fixture(scope="session")
def generator(generator_path: str) -> tril.Generator:
    return tril.Generator(generator_path, device="cpu")


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return [english for english, _ in tril.phrasebook()[0][:200]]


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[2]

"""Examples are run: the docstrings, the page of the guide, the notebooks."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import json
import os
import pathlib
import pkgutil
import re
import shutil
from typing import Any

import pytest

import tril
from blocks import python_blocks

MODULES = [name for _, name, _ in pkgutil.iter_modules(tril.__path__) if name != "_tril"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, translator: tril.Translator, model_path: str) -> None:
    module = importlib.import_module(f"tril.{name}")
    failed = doctest.testmod(module, extraglobs={"translator": translator, "model_path": model_path, "tril": tril})
    assert failed.failed == 0


def test_there_are_docstrings_to_run() -> None:
    finder = doctest.DocTestFinder()
    examples = sum(len(test.examples) for name in MODULES
                   for test in finder.find(importlib.import_module(f"tril.{name}")))
    assert examples > 10


def matches(shown: str, printed: str) -> bool:
    """`…` stands for any text within a line."""
    pattern = re.escape(shown.strip()).replace("…", "[^\n]*")
    return re.fullmatch(pattern, printed.strip()) is not None


def test_the_guide(root: pathlib.Path, demo_path: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block runs, one after the other, in a folder with the demo's model; what a block prints stands in the
    comments at its end."""
    page = root / "docs/guide/15-python.md"
    shutil.copytree(demo_path, tmp_path / "demo-model")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    count = 0
    for number, code in python_blocks(page):
        shown = re.search(r"((?:^#(?: .*)?\n)+)\Z", code, re.MULTILINE)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * (number - 1) + code, str(page), "exec"), names)
        printed = output.getvalue()
        wanted = re.sub(r"^# ?", "", shown[1], flags=re.MULTILINE) if shown else ""
        assert matches(wanted, printed), f"{page}:{number} printed\n{printed}"
        count += 1
    assert count > 10


NOTEBOOKS = ["lesson", "translator"]


def text_of(output: dict[str, Any]) -> str:
    return "".join(output["data"].get("text/plain", "") if "data" in output else output.get("text", ""))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks(name: str, root: pathlib.Path, demo_path: str, tmp_path: pathlib.Path,
                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Each notebook runs from its first cell to its last, and prints what it shows."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(tril.__file__).parents[1]))
    path = root / f"docs/notebooks/{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    kept = json.loads(path.read_text(encoding="utf-8"))
    shutil.copytree(demo_path, tmp_path / "demo-model")
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    compared = 0
    for cell, before in zip(notebook.cells, kept["cells"]):
        if cell.cell_type != "code" or "timed" in cell.metadata.get("tags", []):
            continue
        was = [text_of(output) for output in before["outputs"]]
        now = [text_of(output) for output in cell.outputs]
        if any("Progress" in text or "IPython" in text for text in was):
            continue
        assert now == was, f"{name}: {cell.source}"
        compared += len(now)
    assert compared >= 5
    pictures = [data for cell in kept["cells"] for output in cell.get("outputs", [])
                for data in output.get("data", {}) if data in ("image/svg+xml", "image/png", "text/html")]
    assert len(pictures) >= 2
    assert os.path.getsize(path) < 2_000_000

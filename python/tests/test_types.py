"""Types: mypy --strict over the package, the tests and the examples of the guide, and stubtest."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

import tril
from blocks import python_blocks

pytest.importorskip("mypy")
PACKAGE = pathlib.Path(tril.__file__).parent
TESTS = pathlib.Path(__file__).parent

# What nanobind's functions and classes differ in from Python's own, which is not what stubs say.
NANOBINDS = re.compile(r"is not a function|metaclass differs|is a disjoint base at runtime"
                       r"|stub is a staticmethod but runtime is not|stub does not have \*args parameter")


def mypy(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", os.devnull,
                           *arguments], text=True, capture_output=True,
                          env={**os.environ, "MYPYPATH": f"{PACKAGE.parent}:{TESTS}" if "site-packages" not in
                               str(PACKAGE) else str(TESTS)})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package() -> None:
    mypy("-p", "tril")


def test_the_tests() -> None:
    mypy(*map(str, sorted(TESTS.glob("*.py"))))


def test_the_guide(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What people copy must pass, too."""
    code = "\n".join(block for _, block in python_blocks(root / "docs/guide/15-python.md"))
    # Shown without types, as people write it; the calls are checked.
    (tmp_path / "guide.py").write_text(code.replace("\nawait ", "\n"), encoding="utf-8")
    mypy("--allow-untyped-defs", "--allow-untyped-calls", str(tmp_path / "guide.py"))


def test_a_mistake_is_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import tril\ntril.Translator('m').translate('a', beam_size='4')\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="beam_size"):
        mypy(str(tmp_path / "wrong.py"))


def test_stubs_are_what_is_there() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "--concise", "tril"], text=True, capture_output=True,
                          env={**os.environ, "MYPYPATH": str(PACKAGE.parent) if "site-packages" not in str(PACKAGE)
                               else "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    wrong = [line for line in (done.stdout + done.stderr).splitlines() if line and not NANOBINDS.search(line)]
    assert wrong == [] and "tril._tril.Model" in done.stdout

"""One process with other packages that bring the same libraries: importing and using them in every order."""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys

import pytest

OTHERS = [name for name in ("sentencepiece", "google.protobuf", "ctranslate2", "torch", "numpy")
          if importlib.util.find_spec(name.split(".")[0])]

# Each package does something with the library that might be mixed up.
USES = {
    "tril": "import tril; t = tril.Translator(sys.argv[1], device='cpu'); "
            "assert t.tokenizer.decode(t.tokenizer.encode('I want tea')) == 'I want tea'; t.translate(['I want tea'] * 50)",
    "sentencepiece": "import sentencepiece; s = sentencepiece.SentencePieceProcessor("
                     "model_file=sys.argv[1] + '/tokenizer.model'); assert s.decode(s.encode('I want tea')) == 'I want tea'",
    "google.protobuf": "from google.protobuf import struct_pb2 as p; s = p.Struct(); s['a'] = 1; "
                       "assert p.Struct.FromString(s.SerializeToString())['a'] == 1",
    "ctranslate2": "import ctranslate2; assert ctranslate2.get_supported_compute_types('cpu')",
    "torch": "import torch; assert (torch.ones(64, 64) @ torch.ones(64, 64)).sum() == 64 ** 3",
    "numpy": "import numpy; assert (numpy.ones((64, 64)) @ numpy.ones((64, 64))).sum() == 64 ** 3",
}


def orders() -> list[tuple[str, ...]]:
    """tril before and after each other package, and in every place among all of them, in both directions; in the soak
    test every order of tril and two others."""
    one = [order for name in OTHERS for order in (("tril", name), (name, "tril"))]
    whole = [tuple(OTHERS[:i] + ["tril"] + OTHERS[i:]) for i in range(len(OTHERS) + 1)]
    two = [order for pair in itertools.combinations(OTHERS, min(2, len(OTHERS)))
           for order in itertools.permutations(("tril", *pair))]
    return one + whole + [tuple(reversed(order)) for order in whole] + (two if os.environ.get("TRIL_SOAK") else [])


@pytest.mark.skipif(not OTHERS, reason="none of the packages is installed")
@pytest.mark.parametrize("order", orders(), ids="-".join)
def test_order(order: tuple[str, ...], model_path: str) -> None:
    script = "import sys\n" + "\n".join(USES[name] for name in order) + "\n"
    # Once more, when all are there.
    script += "\n".join(USES[name] for name in order)
    done = subprocess.run([sys.executable, "-c", script, model_path], text=True, capture_output=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.skipif("torch" not in OTHERS, reason="torch is not installed")
def test_torch_takes_arrays_without_a_copy(model_path: str) -> None:
    script = """
import sys, torch, tril
numbers = tril.Translator(sys.argv[1], device="cpu").forward("I want tea", "a b")
tensor = torch.from_dlpack(numbers.logits_array)
assert tensor.data_ptr() == numbers.logits.ctypes.data and tensor.shape == numbers.logits.shape
"""
    done = subprocess.run([sys.executable, "-c", script, model_path], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert done.returncode == 0, done.stderr

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
    """Every order of tril and each pair of others, and all of them at once, tril in every place."""
    few = [order for pair in itertools.combinations(OTHERS, min(2, len(OTHERS)))
           for order in itertools.permutations(("tril", *pair))]
    whole = [tuple(OTHERS[:i] + ["tril"] + OTHERS[i:]) for i in range(len(OTHERS) + 1)]
    return (few if os.environ.get("TRIL_FULL") else []) + whole + [tuple(reversed(order)) for order in whole]


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

"""tril: Transformers whose training and inference are the same function, bit for bit.

    import tril

    translator = tril.Translator("en-de")
    print(translator.translate("How are you?"))
    for result in translator.translate_batch(["Thank you", "Good morning"], num_hypotheses=3):
        print(result.hypotheses, result.scores)

The guide's page on Python leads through all of it: docs/guide/15-python.md.
"""

from __future__ import annotations

from . import _tril

# A processor that cannot run tril is told so here, with a clear error.
_tril.check_processor()

from ._options import DecodingOptions
from ._pending import PendingTranslation, TokenStream
from ._tril import Evaluation, Hypothesis, Score, Step, Tokenizer, TrainStatus, TrainSummary, Translation
from .errors import (
    BadFormat,
    Cancelled,
    DeviceError,
    InputOutput,
    Internal,
    InvalidArgument,
    OutOfMemory,
    ShapeMismatch,
    TimedOut,
    TrilError,
    Unsupported,
)
from .evaluation import evaluate, score_texts
from .explaining import Explanation
from .folders import ExportReport, ImportReport, VerifiedFile, export_model, import_model, quantize, verify
from .forwarding import ForwardPass
from .proving import Proof
from .training import train
from .translator import Generator, Translator

__version__: str = _tril.version


def train_options() -> dict[str, str]:
    """The options of train() by their names, each with a line of help."""
    return {name.replace("-", "_"): help for name, help in _tril.train_options()}


def phrasebook() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The built-in phrasebook, English to Hindi: pairs to learn from, and combinations that are held out."""
    return _tril.phrasebook()


def device_problem() -> str:
    """Why no GPU can be used on this machine; empty where one can."""
    return _tril.device_problem()


__all__ = [
    "BadFormat",
    "Cancelled",
    "DecodingOptions",
    "DeviceError",
    "Evaluation",
    "Explanation",
    "ExportReport",
    "ForwardPass",
    "Generator",
    "Hypothesis",
    "ImportReport",
    "InputOutput",
    "Internal",
    "InvalidArgument",
    "OutOfMemory",
    "PendingTranslation",
    "Proof",
    "Score",
    "ShapeMismatch",
    "Step",
    "TimedOut",
    "TokenStream",
    "Tokenizer",
    "TrainStatus",
    "TrainSummary",
    "Translation",
    "Translator",
    "TrilError",
    "Unsupported",
    "VerifiedFile",
    "device_problem",
    "evaluate",
    "export_model",
    "import_model",
    "phrasebook",
    "quantize",
    "score_texts",
    "train",
    "train_options",
    "verify",
]

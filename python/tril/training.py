"""train(): from text to a model folder, in a run that can be stopped at any moment and continued."""

from __future__ import annotations

import os
from typing import Callable, Iterable, Sequence

from . import _tril
from ._progress import progress_for

Path = str | os.PathLike[str]
Files = Path | Sequence[Path]
Value = bool | int | float | str | Sequence[str]
StatusCallback = Callable[[_tril.TrainStatus], object]
# The status, the loss and the BLEU of the evaluation, its translations, and whether it is the best so far.
EvaluationCallback = Callable[[_tril.TrainStatus, float, float, Sequence[str], bool], object]

_FILES = ("source", "target", "tsv", "text", "valid-source", "valid-target", "valid-tsv", "valid-text")


def train(
    output: Path,
    *,
    source: Files | None = None,
    target: Files | None = None,
    tsv: Files | None = None,
    text: Files | None = None,
    valid_source: Files | None = None,
    valid_target: Files | None = None,
    valid_tsv: Files | None = None,
    valid_text: Files | None = None,
    pairs: Iterable[tuple[str, str]] | None = None,
    valid_pairs: Iterable[tuple[str, str]] | None = None,
    from_model: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    threads: int = 0,
    progress: bool | None = None,
    callback: StatusCallback | None = None,
    on_evaluation: EvaluationCallback | None = None,
    **options: Value,
) -> _tril.TrainSummary:
    """Trains a model into the folder ``output``, or continues the run there (``resume=True``).

    The text comes from files (``source`` and ``target``, ``tsv``, or ``text`` for a decoder-only model), or from memory:
    ``pairs`` of source and target, whose sources are "" for a decoder-only model. ``from_model`` fine-tunes a model.
    ``options`` are those of `tril train` with underscores, such as ``vocab=4000, updates=1000, preset="small"``;
    train_options() lists them. ``callback(status)`` and ``on_evaluation(…)`` are called now and then; returning True
    stops the run after a checkpoint, and so does Ctrl-C. ``progress``: a bar in notebooks and on terminals, unless it
    is False.
    """
    files = dict(zip(_FILES, (source, target, tsv, text, valid_source, valid_target, valid_tsv, valid_text)))
    settings = [(name, _paths(value)) for name, value in files.items() if value is not None]
    if from_model is not None:
        settings.append(("from", [os.path.abspath(os.fspath(from_model))]))
    settings += [(name.replace("_", "-"), _words(name, value)) for name, value in options.items()]
    for name, value in (("resume", resume), ("overwrite", overwrite)):
        if not isinstance(value, bool):
            raise TypeError(f"{name}: expected True or False, got {value!r}")
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other")
    start = "resume" if resume else "overwrite" if overwrite else "fresh"
    bar = progress_for(progress)

    def status(now: _tril.TrainStatus) -> object:
        bar.show(now)
        return callback(now) if callback is not None else None

    def evaluated(now: _tril.TrainStatus, loss: float, bleu: float, texts: Sequence[str], best: bool) -> object:
        bar.evaluated(now, loss, bleu if texts else None, best)
        return on_evaluation(now, loss, bleu, texts, best) if on_evaluation is not None else None

    try:
        return _tril.train(
            os.path.abspath(os.fspath(output)), settings,
            None if pairs is None else _pairs(pairs), None if valid_pairs is None else _pairs(valid_pairs),
            start, device, threads, status, bar.message, evaluated)
    finally:
        bar.close()


def _paths(files: Files) -> list[str]:
    several = [files] if isinstance(files, (str, os.PathLike)) else files
    return [os.path.abspath(os.fspath(path)) for path in several]


def _words(name: str, value: Value) -> list[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, (int, float)):
        return [repr(float(value) if isinstance(value, float) else int(value))]
    if isinstance(value, str):
        return [os.path.abspath(value)] if name == "tokenizer" else [value]
    return [str(each) for each in value]


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that a file of lines could hold, too."""
    kept = []
    for number, (source, target) in enumerate(pairs):
        if "\n" in source or "\n" in target:
            raise ValueError(f"pair {number} has a line break: split it into lines first")
        if target.strip():
            kept.append((source, target))
    return kept


__all__ = ["train"]

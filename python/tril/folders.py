"""Model folders: import, export, packed weights, verification."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from . import _tril

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class ImportReport:
    family: str
    parameters: int
    languages: list[str]
    unknown_fields: list[str]
    notices: list[str]


@dataclass(frozen=True)
class ExportReport:
    family: str
    tensors: int
    rounded: int
    bytes: int
    notices: list[str]


@dataclass(frozen=True)
class VerifiedFile:
    path: str
    state: str
    detail: str


def import_model(folder: Path, output: Path, *, overwrite: bool = False) -> ImportReport:
    """Makes a model folder of a folder of Hugging Face's transformers. Nothing in it is executed."""
    return ImportReport(**_tril.import_model(os.fspath(folder), os.fspath(output), overwrite))


def export_model(model: Path, output: Path, *, dtype: Literal["float32", "float16", "bfloat16"] | None = None,
                 overwrite: bool = False) -> ExportReport:
    """Makes a folder of Hugging Face's transformers of a model; without ``dtype``, with the types it was imported in."""
    return ExportReport(**_tril.export_model(os.fspath(model), os.fspath(output), dtype, overwrite))


def quantize(model: Path, compute_type: Literal["int8", "bf16", "bf16-dot", "fp32"] = "int8",
             output: Path | None = None, *, overwrite: bool = False) -> None:
    """Writes a smaller, faster copy of the weights, into the model's own folder unless another is named."""
    _tril.quantize(os.fspath(model), compute_type, None if output is None else os.fspath(output), overwrite)


def verify(folder: Path) -> list[VerifiedFile]:
    """Compares every byte of a model folder with its checksum. ``state`` is sound, unsealed, stale, incomplete or
    damaged."""
    return [VerifiedFile(*file) for file in _tril.verify(os.fspath(folder))]

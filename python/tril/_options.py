"""Options of a call by CTranslate2's names, where it has the same, and what the library calls them."""

from __future__ import annotations

from typing import Literal, Sequence, TypedDict

from . import _tril


class DecodingOptions(TypedDict, total=False):
    """How to translate or to generate. What is not named is as the model's folder says, and what that does not name as
    tril's defaults: a beam of 5 for translating."""

    beam_size: int
    num_hypotheses: int
    length_penalty: float
    early_stopping: Literal["yes", "no", "never"]
    max_decoding_length: int
    min_decoding_length: int
    max_ratio: float
    no_repeat_ngram_size: int
    repetition_penalty: float
    renormalize: bool
    sampling: bool
    sampling_topk: int
    sampling_topp: float
    sampling_temperature: float
    seed: int
    suppress_sequences: Sequence[Sequence[str] | Sequence[int]]
    force_end: bool
    return_alignments: bool
    return_attention: bool
    return_scores: bool
    max_batch_size: int
    read_ahead: int
    bad_lines: Literal["error", "skip"]
    from_language: str
    to_language: str
    shortlist: bool


# Those that are settings of the search, under the library's names.
_SETTINGS = {
    "beam_size": "beam",
    "num_hypotheses": "n_best",
    "length_penalty": "length_penalty",
    "early_stopping": "early_stopping",
    "max_decoding_length": "max_tokens",
    "min_decoding_length": "min_tokens",
    "max_ratio": "max_ratio",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "repetition_penalty": "repetition_penalty",
    "renormalize": "renormalize",
    "sampling_topk": "top_k",
    "sampling_topp": "top_p",
    "sampling_temperature": "temperature",
    "seed": "seed",
    "force_end": "force_end",
    "from_language": "from_language",
    "to_language": "to_language",
}
NAMES = frozenset(DecodingOptions.__annotations__)


def _samples(named: DecodingOptions) -> bool:
    """A top-k of 1, the default, means the best token, as in CTranslate2; there, unlike here, a temperature or top-p
    alone changes nothing."""
    if named.get("sampling_topk", 1) != 1:
        return True
    return named.get("sampling_topp", 1.0) != 1.0 or named.get("sampling_temperature", 1.0) != 1.0


def library_options(model: _tril.Model, named: DecodingOptions) -> _tril.Options:
    """The library's options for those that were named."""
    options = _tril.Options()
    for name in named:
        if name not in NAMES:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(sorted(NAMES))}")
    samples = named.get("sampling", _samples(named))
    for name, value in named.items():
        setting = _SETTINGS.get(name)
        if setting is None or (not samples and name.startswith("sampling_")):
            continue
        try:
            setattr(options, setting, value)
        except TypeError:
            raise TypeError(f"{name}: {value!r} is of the wrong type") from None
    if samples or "sampling" in named:
        options.sample = samples
    if named.get("sampling_topk") == 1 and samples:
        options.top_k = 1
    options.alignments = named.get("return_alignments", False) or named.get("return_attention", False)
    choice = named.get("bad_lines", "error")
    if choice not in ("error", "skip"):
        raise ValueError(f"bad_lines: expected 'error' or 'skip', got {choice!r}")
    options.skip_bad_lines = choice == "skip"
    if "suppress_sequences" in named:
        options.forbidden = [_ids(model, sequence) for sequence in named["suppress_sequences"]]
    if "read_ahead" in named:
        options.window = named["read_ahead"]
    if named.get("shortlist", False):
        options.use_shortlist(model.folder)
    # More hypotheses than the beam is wide would be an error that names an option nobody gave.
    if not samples and "num_hypotheses" in named and "beam_size" not in named:
        width = model.width(_without_n_best(options))
        options.beam = max(width, named["num_hypotheses"])
    if named.get("max_batch_size", 0) > 0:
        options.slots = named["max_batch_size"] * model.width(options)
    return options


def _without_n_best(options: _tril.Options) -> _tril.Options:
    n_best, options.n_best = options.n_best, None
    try:
        copy = _tril.Options()
        for setting in ("beam", "sample"):
            setattr(copy, setting, getattr(options, setting))
        return copy
    finally:
        options.n_best = n_best


def _ids(model: _tril.Model, sequence: Sequence[str] | Sequence[int]) -> list[int]:
    tokenizer = _tril.Tokenizer.of_model(model)
    ids: list[int] = []
    for token in sequence:
        if isinstance(token, int):
            ids.append(token)
            continue
        found = tokenizer.find(token)
        if found is None:
            raise ValueError(f"suppress_sequences: the model has no piece {token!r}")
        ids.append(found)
    return ids

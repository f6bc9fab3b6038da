"""evaluate(): BLEU and chrF of translations."""

from __future__ import annotations

from typing import Iterable, Sequence, Unpack

from . import _tril
from ._options import DecodingOptions
from .translator import Translator

References = Sequence[str] | Sequence[Sequence[str]]


def evaluate(translator: Translator, source: Sequence[str], reference: References, *, tokenize: str = "13a",
             **options: Unpack[DecodingOptions]) -> _tril.Evaluation:
    """Translates the sources and scores the result: BLEU, chrF and chrF++ as sacreBLEU computes them.

    ``reference`` has one text, or several, per source.
    """
    if isinstance(source, str) or isinstance(reference, str):
        raise TypeError("expected lists of texts, got one text: read files into lists first")
    if len(source) != len(reference):
        raise ValueError(f"{len(source)} sources, but {len(reference)} references")
    return score_texts((result.text for result in translator.translate_iterable(source, **options)), reference,
                       tokenize=tokenize)


def score_texts(hypothesis: Iterable[str], reference: References, *, tokenize: str = "13a") -> _tril.Evaluation:
    """The same for translations that are there already.

    >>> tril.score_texts(["the cat sat on the mat"], ["the cat sat on the mat"]).chrf
    100.0
    """
    scores = _tril.Evaluation(tokenize)
    count = 0
    for text in hypothesis:
        if count == len(reference):
            raise ValueError(f"more translations than the {count} references")
        texts = reference[count]
        scores.add(text, [texts] if isinstance(texts, str) else list(texts))
        count += 1
    if count != len(reference):
        raise ValueError(f"{count} translations, but {len(reference)} references")
    return scores

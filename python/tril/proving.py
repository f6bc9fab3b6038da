"""What a proof found."""

from __future__ import annotations

import html

from . import _tril

_SECTIONS = {
    "table": "training against inference, with evidence",
    "agreement": "the parallel pass against step by step",
    "leaks": "what a row may not see does not reach it",
    "sequential": "sequential training against all at once",
    "every-input": "for every input",
}


class Proof:
    """The result of Translator.prove(): ``bool(proof)`` says whether everything holds."""

    def __init__(self, proof: _tril.Proof, model: str) -> None:
        self._proof = proof
        self.model = model

    @property
    def holds(self) -> bool:
        return self._proof.holds

    @property
    def failed(self) -> list[str]:
        """The sections that do not hold: table, agreement, leaks, sequential, every-input."""
        return self._proof.failed

    @property
    def logits_compared(self) -> int:
        return self._proof.logits_compared

    @property
    def logits_differing(self) -> int:
        """Of these, how many differ in any bit."""
        return self._proof.logits_differing

    @property
    def positions_poisoned(self) -> int:
        return self._proof.positions_poisoned

    @property
    def agreement(self) -> list[tuple[str, str, bool, int, int]]:
        """How the model wrote, in what company, whether it holds, logits compared, and how many differ."""
        return self._proof.agreement

    @property
    def seconds(self) -> float:
        return self._proof.seconds

    def __bool__(self) -> bool:
        return self.holds

    def _rows(self) -> list[tuple[str, str]]:
        failed = set(self.failed)
        without = self._proof.without_gradients
        rows = []
        for name, what in _SECTIONS.items():
            verdict = "does not hold" if name in failed else "holds"
            if name == "sequential" and without:
                verdict = f"nothing to show: {without}"
            rows.append((what, verdict))
        return rows

    def _figures(self) -> str:
        return (f"{self._proof.sentences} sentences: of {self.logits_compared} logits {self.logits_differing} differ in "
                f"any bit; {self.positions_poisoned} positions poisoned, {self._proof.heads_leaking} heads leak")

    def __str__(self) -> str:
        width = max(len(what) for what, _ in self._rows())
        lines = [f"{what:<{width}}  {verdict}" for what, verdict in self._rows()]
        return "\n".join([*lines, self._figures()])

    def __repr__(self) -> str:
        return f"Proof(holds={self.holds}, logits_compared={self.logits_compared}, failed={self.failed})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td style='text-align:left'>{html.escape(what)}</td><td>{html.escape(verdict)}</td></tr>"
                       for what, verdict in self._rows())
        return f"<table>{rows}</table><p>{html.escape(self._figures())}</p>"

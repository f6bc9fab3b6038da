"""The page of `tril explain` as an object that shows itself in a notebook."""

from __future__ import annotations

import html
import os

from . import _tril


class Explanation:
    """What a model does with one sentence: the training pass and decoding side by side, with every number."""

    def __init__(self, page: _tril.Page) -> None:
        self._page = page

    @property
    def html(self) -> str:
        """One self-contained page, which makes no requests."""
        return self._page.html

    @property
    def sentence(self) -> str:
        return self._page.sentence

    @property
    def translation(self) -> str:
        """What the model wrote by itself."""
        return self._page.written_text

    @property
    def target(self) -> str:
        """What the training pass read."""
        return self._page.target_text

    @property
    def numbers_compared(self) -> int:
        return self._page.numbers_compared

    @property
    def numbers_differing(self) -> int:
        """How many of these differ in any bit between training and decoding."""
        return self._page.numbers_differing

    @property
    def training_calls(self) -> int:
        """How often the decoder was called in the training pass: once."""
        return self._page.training_calls

    @property
    def decoding_calls(self) -> int:
        """How often at inference: once per token."""
        return self._page.decoding_calls

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, to be opened in a browser."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return (f"Explanation({self.sentence!r} -> {self.translation!r}, {self.numbers_differing} of "
                f"{self.numbers_compared} numbers differ)")

    def _repr_html_(self) -> str:
        """The page in a frame of its own that may run its script and nothing else: it reaches neither the notebook nor
        any network."""
        return (f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(self.html, quote=True)}" '
                'style="width:100%;height:760px;border:0" title="What the model does with one sentence"></iframe>')

"""How far a run has come: a bar in a notebook, a line on a terminal, nothing anywhere else."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

from . import _tril


class Progress:
    """Shows nothing."""

    def show(self, status: _tril.TrainStatus) -> None: ...
    def message(self, text: str) -> None: ...
    def evaluated(self, status: _tril.TrainStatus, loss: float, bleu: float | None, best: bool) -> None: ...
    def close(self) -> None: ...


def _figures(status: _tril.TrainStatus) -> str:
    return (f"{status.update} of {status.updates} updates, loss {status.loss:.3f}, "
            f"{status.tokens_per_second:,.0f} tokens per second, {_duration(status.seconds_left)} left")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _evaluation(status: _tril.TrainStatus, loss: float, bleu: float | None, best: bool) -> str:
    score = "" if bleu is None else f", BLEU {bleu:.2f}"
    return f"update {status.update}: validation loss {loss:.4f}{score}{' (best so far, kept)' if best else ''}"


class TerminalProgress(Progress):
    def __init__(self) -> None:
        self._width = 0

    def show(self, status: _tril.TrainStatus) -> None:
        line = _figures(status)
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def message(self, text: str) -> None:
        self.close()
        sys.stderr.write(text + "\n")

    def evaluated(self, status: _tril.TrainStatus, loss: float, bleu: float | None, best: bool) -> None:
        self.message(_evaluation(status, loss, bleu, best))

    def close(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            self._width = 0


class NotebookProgress(Progress):
    """A bar that is drawn again in its place, by what every notebook has: IPython's display()."""

    def __init__(self, display: Any, make_html: Any) -> None:
        self._make_html = make_html
        self._lines: list[str] = []
        self._status: _tril.TrainStatus | None = None
        self._last = 0.0
        self._handle = display(make_html(""), display_id=True)

    def show(self, status: _tril.TrainStatus) -> None:
        self._status = status
        now = time.monotonic()
        if now - self._last > 0.2:
            self._last = now
            self._draw()

    def message(self, text: str) -> None:
        self._lines.append(text)
        self._draw()

    def evaluated(self, status: _tril.TrainStatus, loss: float, bleu: float | None, best: bool) -> None:
        self._status = status
        self.message(_evaluation(status, loss, bleu, best))

    def close(self) -> None:
        self._draw()

    def _draw(self) -> None:
        parts = []
        if self._status is not None:
            status = self._status
            parts.append(f'<progress value="{status.update}" max="{max(1, status.updates)}" style="width:60%"></progress>'
                         f"<div>{html.escape(_figures(status))}</div>")
        parts += [f"<div>{html.escape(line)}</div>" for line in self._lines]
        self._handle.update(self._make_html("".join(parts)))


def progress_for(wanted: bool | None) -> Progress:
    """What suits the place where this runs. ``wanted``: None shows it where somebody may be watching."""
    if wanted is False:
        return Progress()
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
        # It is there: this runs inside of it.
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        return NotebookProgress(display, HTML)
    return TerminalProgress() if wanted or sys.stderr.isatty() else Progress()

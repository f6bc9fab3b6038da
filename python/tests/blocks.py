"""The Python blocks of a page of the guide, and the output that it shows after them."""

from __future__ import annotations

import pathlib
from typing import Iterator


def python_blocks(page: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Each block marked ``python``, with the number of its first line."""
    kind: str | None = None
    code: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if kind is None and line.startswith("```"):
            kind, code = line[3:].strip() or "text", []
        elif kind is not None and line == "```":
            if kind == "python":
                yield number - len(code), "\n".join(code) + "\n"
            kind = None
        elif kind is not None:
            code.append(line)

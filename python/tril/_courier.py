"""Tells waiting code that something has arrived, on a thread of its own.

The thread that decodes never waits for Python: it rings a bell in the extension module. One daemon thread waits for the
bell and calls whoever listens. It ends before the interpreter does.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from typing import Callable

from . import _tril


class _Courier:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._listeners: dict[int, Callable[[int], None]] = {}
        self._thread: threading.Thread | None = None

    def listen(self, pending: _tril.Pending, listener: Callable[[int], None]) -> int:
        """Calls the listener with the number returned, on the courier's thread, whenever there is news of the line,
        which may be at once."""
        with self._lock:
            number = next(self._numbers)
            self._listeners[number] = listener
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tril-courier", daemon=True)
                self._thread.start()
        pending.listen(number)
        return number

    def forget(self, pending: _tril.Pending, number: int) -> None:
        pending.forget(number)
        with self._lock:
            self._listeners.pop(number, None)

    def stop(self) -> None:
        _tril.close_bell()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while numbers := _tril.wait_for_bell():
            for number in numbers:
                with self._lock:
                    listener = self._listeners.get(number)
                if listener is not None:
                    listener(number)


courier = _Courier()


def _in_child() -> None:
    global courier
    courier = _Courier()


def _at_exit() -> None:
    courier.stop()
    _tril.end_of_interpreter()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)

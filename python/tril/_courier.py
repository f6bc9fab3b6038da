"""Tells waiting code that something has arrived.

The thread that decodes never waits for Python: it rings a bell of the extension module. An event loop watches the bell's
descriptor. For callbacks outside of event loops one daemon thread waits for a bell; it ends before the interpreter does.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import os
import threading
import weakref
from typing import Callable

from . import _tril

_log = logging.getLogger("tril")


class _Courier:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._bell = _tril.Bell()
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
        pending.listen(self._bell, number)
        return number

    def forget(self, pending: _tril.Pending, number: int) -> None:
        pending.forget(self._bell, number)
        with self._lock:
            self._listeners.pop(number, None)

    def stop(self) -> None:
        self._bell.silence()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while numbers := self._bell.wait():
            for number in numbers:
                with self._lock:
                    listener = self._listeners.get(number)
                if listener is None:
                    continue
                try:
                    listener(number)
                except Exception:  # the next line's callback must still come
                    _log.exception("a callback of a line raised")


courier = _Courier()


class LoopBell:
    """The bell of one event loop; to be used on its thread alone."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bell = _tril.Bell()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self._bell.fileno(), self._rung)

    def _rung(self) -> None:
        for number in self._bell.take():
            waiting = self._waiting.get(number)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    async def news(self, pending: _tril.Pending) -> None:
        """Waits for the next step or the result. A task that is cancelled here cancels its line."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        pending.listen(self._bell, number)
        try:
            await self._waiting[number]
        except asyncio.CancelledError:
            pending.cancel()
            raise
        finally:
            del self._waiting[number]
            pending.forget(self._bell, number)


_bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBell] = weakref.WeakKeyDictionary()


def bell_of_loop() -> LoopBell:
    loop = asyncio.get_running_loop()
    bell = _bells.get(loop)
    if bell is None:
        bell = _bells[loop] = LoopBell(loop)
    return bell


def _in_child() -> None:
    global courier
    courier = _Courier()


def _at_exit() -> None:
    courier.stop()
    _tril.end_of_interpreter()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)

"""Lines that were submitted: to be waited for, awaited, cancelled, or watched while they are decoded."""

from __future__ import annotations

import math
import threading
from typing import AsyncIterator, Callable, Generator as Generating, Iterator

from . import _courier, _tril


def seconds(timeout: float | None) -> float:
    """A limit as the extension takes it: below 0, there is none."""
    if timeout is None or timeout == math.inf:
        return -1.0
    if math.isnan(timeout):
        raise ValueError("a timeout that is not a number")
    return max(0.0, timeout)


class PendingTranslation:
    """A line that is being translated. Cancelling the task that awaits it cancels the line, too.

    >>> pending = translator.submit("How are you?")
    >>> pending.result().text == translator.translate("How are you?")
    True
    """

    def __init__(self, pending: _tril.Pending) -> None:
        self._pending = pending
        self._result: _tril.Translation | None = None
        self._error: BaseException | None = None
        self._taking = threading.Lock()  # the result can be taken once, and any thread may ask for it

    def done(self) -> bool:
        """Whether result() would return at once."""
        return self._pending.done()

    def cancel(self) -> None:
        """The line leaves within a step or two, unless it is done before; result() then raises Cancelled."""
        self._pending.cancel()

    def result(self, timeout: float | None = None) -> _tril.Translation:
        """Waits for the translation. Raises TimeoutError when the time has passed, and what went wrong."""
        if not self._pending.wait(seconds(timeout)):
            raise TimeoutError("the line is not translated yet")
        return self._take()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What result() would raise; None if it would return."""
        if not self._pending.wait(seconds(timeout)):
            raise TimeoutError("the line is not translated yet")
        try:
            self._take()
        except Exception as error:
            return error
        return None

    def add_done_callback(self, call: Callable[[PendingTranslation], object]) -> None:
        """Calls ``call(self)`` once the line is done, on a thread of tril's own; it should return quickly."""

        def arrived(number: int) -> None:
            if self.done():
                _courier.courier.forget(self._pending, number)
                call(self)

        _courier.courier.listen(self._pending, arrived)

    def _take(self) -> _tril.Translation:
        with self._taking:
            if self._error is not None:
                raise self._error
            if self._result is None:
                try:
                    self._result = self._pending.result()
                except Exception as error:
                    self._error = error
                    raise
            return self._result

    def __await__(self) -> Generating[object, None, _tril.Translation]:
        return self._wait().__await__()

    async def _wait(self) -> _tril.Translation:
        while not self._pending.done():
            await _courier.bell_of_loop().news(self._pending)
        return self._take()


class TokenStream:
    """A line that is watched while it is decoded: ``for step in stream`` or ``async for step in stream``.

    Each Step is certain: with a beam, it is what all hypotheses begin with. ``result()`` is the whole translation.
    Leaving the loop early cancels the line.
    """

    def __init__(self, pending: _tril.Pending) -> None:
        self._pending = pending
        self._whole = PendingTranslation(pending)

    def result(self, timeout: float | None = None) -> _tril.Translation:
        return self._whole.result(timeout)

    def cancel(self) -> None:
        self._pending.cancel()

    def __iter__(self) -> Iterator[_tril.Step]:
        try:
            while True:
                self._pending.wait(-1.0, True)
                done = self._pending.done()  # before the steps are taken: none follows afterwards
                yield from self._pending.take_steps()
                if done:
                    break
        finally:
            self._pending.cancel()
        self._whole.result()

    async def __aiter__(self) -> AsyncIterator[_tril.Step]:
        try:
            while True:
                done = self._pending.done()
                for step in self._pending.take_steps():
                    yield step
                if done:
                    break
                await _courier.bell_of_loop().news(self._pending)
        finally:
            self._pending.cancel()
        self._whole.result()


__all__ = ["PendingTranslation", "TokenStream"]

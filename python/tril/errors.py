"""Errors: one class per code, all of them TrilError.

    >>> import tril
    >>> try:
    ...     tril.Translator("there/is/no/such/folder")
    ... except tril.TrilError as error:
    ...     print(error.code)
    io

Each is also the exception of Python that comes closest, so that ``except OSError`` and ``except ValueError`` work.
"""

from __future__ import annotations

from typing import Any


class TrilError(Exception):
    """Something that tril cannot do, or that went wrong. ``field`` names the option it is about, if any."""

    code: str = "internal"

    def __init__(self, message: str = "", field: str = "") -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.field)


class InvalidArgument(TrilError, ValueError):
    code = "invalid_argument"


class ShapeMismatch(TrilError, ValueError):
    code = "shape_mismatch"


class Unsupported(TrilError, NotImplementedError):
    code = "unsupported"


class InputOutput(TrilError, OSError):
    code = "io"


class BadFormat(TrilError, ValueError):
    code = "bad_format"


class OutOfMemory(TrilError, MemoryError):
    code = "out_of_memory"


class DeviceError(TrilError, RuntimeError):
    code = "device"


class Cancelled(TrilError):
    code = "cancelled"


class TimedOut(TrilError, TimeoutError):
    code = "timed_out"


class Internal(TrilError, RuntimeError):
    code = "internal"


# By the library's names of its codes.
BY_CODE: dict[str, type[TrilError]] = {
    "invalid argument": InvalidArgument,
    "shape mismatch": ShapeMismatch,
    "unsupported": Unsupported,
    "input/output": InputOutput,
    "bad format": BadFormat,
    "out of memory": OutOfMemory,
    "device": DeviceError,
    "cancelled": Cancelled,
    "timed out": TimedOut,
    "internal": Internal,
}

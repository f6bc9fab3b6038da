"""The numbers of one call of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from . import _tril

if TYPE_CHECKING:
    import numpy
    import numpy.typing


class ForwardPass:
    """Logits, hidden states and attention weights of one call of the model for a whole target.

    ``logits_array`` and ``hidden_array`` lie in the memory in which they were computed, on the GPU too; anything that
    reads DLPack takes them without a copy (``torch.from_dlpack(pass_.hidden_array)``). The others are NumPy arrays.
    """

    def __init__(self, numbers: _tril.Pass, tokenizer: _tril.Tokenizer) -> None:
        self._numbers = numbers
        self._tokenizer = tokenizer

    @property
    def source(self) -> list[int]:
        """The ids that the encoder read."""
        return self._numbers.source

    @property
    def target(self) -> list[int]:
        """The ids that the decoder read."""
        return self._numbers.target

    @property
    def source_pieces(self) -> list[str]:
        return [self._tokenizer.piece(token, target=False) for token in self.source]

    @property
    def target_pieces(self) -> list[str]:
        return [self._tokenizer.piece(token) for token in self.target]

    @property
    def device(self) -> str:
        return self._numbers.device

    @property
    def logits_array(self) -> Any:
        """[target, vocab], with ``__dlpack__``."""
        return self._numbers.logits

    @property
    def hidden_array(self) -> Any:
        """[target, model], with ``__dlpack__``."""
        return self._numbers.hidden

    @property
    def logits(self) -> numpy.typing.NDArray[numpy.float32]:
        """[target, vocab]. On the CPU it shares the memory in which it was computed."""
        array: numpy.typing.NDArray[numpy.float32] = _numpy(self._numbers.logits, self.device)
        return array

    @property
    def hidden(self) -> numpy.typing.NDArray[numpy.float32]:
        """[target, model]: what the logits are computed from."""
        array: numpy.typing.NDArray[numpy.float32] = _numpy(self._numbers.hidden, self.device)
        return array

    def attention(
        self, which: Literal["decoder", "cross", "encoder"] = "decoder", layer: int = -1
    ) -> numpy.typing.NDArray[numpy.float64]:
        """[head, query, key]: the weights of one layer, the last unless named. Needs ``attention=True``.

        tril never stores such a matrix: it is computed here, from the queries and keys of the call, by the plain
        formula in float64, and is exactly zero where the mask forbids.
        """
        return self._numbers.attention(which, layer)


def _numpy(array: Any, device: str) -> Any:
    if device != "cpu":
        raise RuntimeError(f"the numbers are on {device}: take logits_array or hidden_array with torch.from_dlpack()")
    import numpy

    return numpy.from_dlpack(array)

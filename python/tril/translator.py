"""Translator and Generator: a model folder, text in and text out."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Iterator, Literal, Sequence, TypeVar, Unpack, overload

from . import _tril
from ._options import DecodingOptions, library_options
from ._pending import PendingTranslation, TokenStream, seconds
from .errors import InvalidArgument
from .explaining import Explanation
from .forwarding import ForwardPass
from .proving import Proof

Path = str | os.PathLike[str]
StepCallback = Callable[[_tril.Step], object]
_Self = TypeVar("_Self", bound="TextModel")

# What other libraries call the library's forms of weights.
_COMPUTE = {"float32": "fp32", "bfloat16": "bf16", "int8_float32": "int8", "bf16_dot": "bf16-dot"}


def _checked(texts: Sequence[str], what: str) -> TypeError | UnicodeEncodeError | None:
    """Why these are not texts; None if they are."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            return TypeError(f"{what} {number} is not text but {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return error
    return None


class TextModel:
    """What Translator and Generator have in common. Any number of threads and tasks may use one at the same time;
    lines of all callers are decoded together. What a line gives depends on the model, the line, its number and the
    options alone."""

    def __init__(
        self,
        model_path: Path,
        device: str = "auto",
        *,
        device_index: int = 0,
        compute_type: str = "default",
        inter_threads: int = 1,
        intra_threads: int = 0,
    ) -> None:
        self.model_path = os.path.abspath(os.fspath(model_path))
        if device == "cuda" and device_index != 0:
            device = f"cuda:{device_index}"
        self._arguments = (device, compute_type, inter_threads, intra_threads)
        # One engine computes for all callers, so there is one number of threads.
        threads = inter_threads * intra_threads
        self._model = _tril.Model(self.model_path, device, _COMPUTE.get(compute_type, compute_type), threads)
        self._threads = threads
        self._plain = _tril.Options()
        self._study: _tril.Study | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its path and its arguments: the model is loaded again where it arrives."""
        device, compute_type, inter_threads, intra_threads = self._arguments
        return _load, (type(self), self.model_path, device, compute_type, inter_threads, intra_threads)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_path!r}, device={self.device!r}, compute_type={self.compute_type!r})"

    @property
    def device(self) -> str:
        return self._model.device

    @property
    def compute_type(self) -> str:
        """How weights are kept and multiplied: fp32, bf16, int8 or bf16-dot."""
        return self._model.compute

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt."""
        return self._model.parameters

    @property
    def notices(self) -> list[str]:
        """What loading the folder had to say: that it is not sealed, for example."""
        return self._model.notices

    @property
    def tokenizer(self) -> _tril.Tokenizer:
        return _tril.Tokenizer.of_model(self._model)

    @property
    def languages(self) -> list[str]:
        """The codes that from_language and to_language may be; empty for a model of one direction."""
        return self._model.languages

    def _options(self, named: DecodingOptions) -> _tril.Options:
        return library_options(self._model, named) if named else self._plain

    def _lines(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str | None] | None,
        options: _tril.Options,
        first_number: int,
        callback: StepCallback | None,
    ) -> list[_tril.Translation]:
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, got one text")
        lines = texts if isinstance(texts, list) else list(texts)
        begin = [] if prefixes is None else ["" if prefix is None else prefix for prefix in prefixes]
        if prefixes is not None and not begin and lines:  # which the extension takes for none at all
            raise InvalidArgument(f"{len(lines)} lines, but no prefixes", "target_prefix")
        try:
            return self._model.translate_lines(lines, begin, options, first_number, callback)
        except TypeError:
            problem = _checked(lines, "text") or _checked(begin, "prefix")
            if problem is not None:
                raise problem from None
            raise

    def _flow(
        self, texts: Iterable[str], prefixes: Iterable[str | None] | None, options: _tril.Options, first_number: int
    ) -> Iterator[_tril.Translation]:
        if isinstance(texts, str):
            raise TypeError("expected texts one by one, got one text")
        flow = _tril.Flow(self._model, options, first_number)
        lines = iter(texts)
        begin = None if prefixes is None else iter(prefixes)
        failure: Exception | None = None
        more = True
        submitted = 0
        while True:
            while more and flow.wants():
                try:
                    line = next(lines)
                    prefix = "" if begin is None else _prefix_of(begin, submitted)
                    problem = _checked([line, prefix], "text")
                    if problem is not None:
                        raise problem
                except StopIteration:
                    more = False
                    if begin is not None and next(begin, _NOTHING) is not _NOTHING:
                        failure = InvalidArgument(f"{submitted} lines, but more prefixes", "target_prefix")
                except Exception as error:  # raised once the lines before it are done
                    failure = error
                    more = False
                else:
                    flow.submit(line, prefix)
                    submitted += 1
            if flow.empty():
                break
            yield flow.next()
        if failure is not None:
            raise failure

    def _submit(self, text: str, prefix: str, named: DecodingOptions, number: int, steps: bool,
                timeout: float | None) -> _tril.Pending:
        options = self._options(named)
        try:
            return _tril.Pending(self._model, text, prefix, options, number, steps,
                                 seconds(timeout))
        except TypeError:
            problem = _checked([text], "text") or _checked([prefix], "prefix")
            if problem is not None:
                raise problem from None
            raise

    def submit(
        self, text: str, *, target_prefix: str = "", number: int = 0, timeout: float | None = None,
        **options: Unpack[DecodingOptions],
    ) -> PendingTranslation:
        """Starts decoding a line and returns at once. After ``timeout`` seconds it is given up: TimedOut."""
        return PendingTranslation(self._submit(text, target_prefix, options, number, False, timeout))

    def stream(
        self, text: str, *, target_prefix: str = "", number: int = 0, timeout: float | None = None,
        **options: Unpack[DecodingOptions],
    ) -> TokenStream:
        """The text as it is being written.

        >>> steps = [step.text for step in translator.stream("How are you?", beam_size=1)]
        >>> steps[-1] == translator.translate("How are you?", beam_size=1)
        True
        """
        return TokenStream(self._submit(text, target_prefix, options, number, True, timeout))

    def forward(
        self, source: str | Sequence[int], target: str | Sequence[int], *, attention: bool = False,
        from_language: str = "", to_language: str = "",
    ) -> ForwardPass:
        """One call of the model for a whole target, as in training: logits, hidden states, attention weights.

        ``target`` is what the decoder reads; of a text this is START and its pieces. Row i of the logits predicts the
        token after target token i. A Generator has no source: pass "".
        """
        tokenizer = self.tokenizer
        if isinstance(source, str):
            source = tokenizer.encode_source(source, from_language, to_language) if not self._model.decoder_only else []
        if isinstance(target, str):
            start = tokenizer.start
            if self._model.decoder_only:
                target = tokenizer.encode(target, target=True)
            else:
                target = tokenizer.encode_target(target, from_language, to_language)[:-1]
            if start is not None:
                target = [start, *target]
        return ForwardPass(_tril.forward(self._model, list(source), list(target), attention), tokenizer)

    def prove(
        self, texts: Sequence[str] = (), targets: Sequence[str] | None = None, *, masked: bool = True,
        full: bool = False, from_language: str = "", to_language: str = "",
        progress: Callable[[str, int, int], object] | None = None,
    ) -> Proof:
        """Proves on this model that training and inference are the same function, bit for bit.

        Without texts, tokens are drawn by chance; without targets, they are what the model itself writes.
        ``masked=False`` takes the causal mask off: the proof must then fail, and says where.
        """
        if isinstance(texts, str) or isinstance(targets, str):
            raise TypeError("expected a list of texts, got one text")
        proof = self._to_study().prove(list(texts), None if targets is None else list(targets), masked, full,
                                       from_language, to_language, progress)
        return Proof(proof, self.model_path)

    def explain(
        self, sentence: str, *, target: str | None = None, beam_size: int | None = None, from_language: str = "",
        to_language: str = "",
    ) -> Explanation:
        """One sentence through the model, training and inference side by side: shows itself in a notebook."""
        return Explanation(self._to_study().explain(sentence, target, beam_size, from_language, to_language))

    def _to_study(self) -> _tril.Study:
        """The folder once more, with its weights as they were learnt: loaded when it is first needed."""
        if self._study is None:
            self._study = _tril.Study(self.model_path, self.device, self._threads)
        return self._study


def _load(kind: type[_Self], path: str, device: str, compute_type: str, inter_threads: int, intra_threads: int) -> _Self:
    return kind(path, device, compute_type=compute_type, inter_threads=inter_threads, intra_threads=intra_threads)


class Translator(TextModel):
    """A model folder that translates.

    >>> translator = tril.Translator(model_path, device="cpu")
    >>> isinstance(translator.translate("How are you?"), str)
    True

    ``device`` is "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1". ``compute_type`` is how weights are kept:
    "default", "float32", "bfloat16", "int8" (as `tril quantize` or tril.quantize() makes them) or "bf16-dot".
    ``inter_threads * intra_threads`` threads compute, all cores where intra_threads is 0. They work on all lines
    together, so that more than one of the former is never needed.
    """

    def __init__(
        self, model_path: Path, device: str = "auto", *, device_index: int = 0, compute_type: str = "default",
        inter_threads: int = 1, intra_threads: int = 0,
    ) -> None:
        super().__init__(model_path, device, device_index=device_index, compute_type=compute_type,
                         inter_threads=inter_threads, intra_threads=intra_threads)
        if self._model.decoder_only:
            raise ValueError(f"{self.model_path} is a decoder-only model: tril.Generator continues text with it")

    @overload
    def translate(self, text: str, **options: Unpack[DecodingOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, text: Sequence[str], **options: Unpack[DecodingOptions]) -> list[str]: ...

    def translate(self, text: str | Sequence[str], **options: Unpack[DecodingOptions]) -> str | list[str]:
        """The best translation of a line, or of each line of a list."""
        if isinstance(text, str):
            return self._lines([text], None, self._options(options), 0, None)[0].text
        return [each.text for each in self._lines(text, None, self._options(options), 0, None)]

    def translate_text(
        self, text: str, *, split: Literal["never", "long", "always"] = "long", **options: Unpack[DecodingOptions]
    ) -> str:
        """A whole text, which keeps its lines and the white space around them. Lines with more tokens than the model
        takes are cut into sentences; with ``split="always"`` every line is."""
        return self._model.translate_text(text, self._options(options), split)

    @overload
    def translate_batch(
        self, source: Sequence[str], target_prefix: Sequence[str | None] | None = None, *,
        callback: StepCallback | None = None, first_number: int = 0, asynchronous: Literal[False] = False,
        **options: Unpack[DecodingOptions],
    ) -> list[_tril.Translation]: ...
    @overload
    def translate_batch(
        self, source: Sequence[str], target_prefix: Sequence[str | None] | None = None, *,
        callback: StepCallback | None = None, first_number: int = 0, asynchronous: Literal[True],
        **options: Unpack[DecodingOptions],
    ) -> list[PendingTranslation]: ...

    def translate_batch(
        self, source: Sequence[str], target_prefix: Sequence[str | None] | None = None, *,
        callback: StepCallback | None = None, first_number: int = 0, asynchronous: bool = False,
        **options: Unpack[DecodingOptions],
    ) -> list[_tril.Translation] | list[PendingTranslation]:
        """Translates lines, each with all its hypotheses, scores and alignments.

        ``callback(step)`` is called while lines are decoded; if it returns True, its line ends with what it has.
        ``first_number`` is the number of the first line, from which samples are drawn: a part of a file that passes the
        number of its first line gets what the whole file would get. With ``asynchronous=True`` the results are
        PendingTranslation objects, at once.
        """
        if not asynchronous:
            return self._lines(source, target_prefix, self._options(options), first_number, callback)
        if callback is not None:
            raise ValueError("callback: not with asynchronous=True; stream() has the steps of a line")
        begin = [None] * len(source) if target_prefix is None else target_prefix
        if len(begin) != len(source):
            raise ValueError(f"{len(source)} lines, but {len(begin)} prefixes")
        return [PendingTranslation(self._submit(line, prefix or "", options, first_number + i, False, None))
                for i, (line, prefix) in enumerate(zip(source, begin))]

    def translate_iterable(
        self, source: Iterable[str], target_prefix: Iterable[str | None] | None = None, *, first_number: int = 0,
        **options: Unpack[DecodingOptions],
    ) -> Iterator[_tril.Translation]:
        """Translates any number of lines, in order, reading ahead only as far as the engine can use (at most
        ``read_ahead`` lines, 1024 unless named): memory is bounded.

        >>> lines = (line for line in ["Thank you", "How are you?"])
        >>> [translation.number for translation in translator.translate_iterable(lines)]
        [0, 1]
        """
        return self._flow(source, target_prefix, self._options(options), first_number)

    def translate_file(self, source_path: Path, output_path: Path, *, target_path: Path | None = None,
                       **options: Unpack[DecodingOptions]) -> int:
        """Translates a file line by line into another, which appears when all of it is there; returns how many lines
        that were. ``target_path`` is a file with the words that translations must begin with."""
        for read in (source_path, target_path):
            if read is not None and os.path.exists(output_path) and os.path.samefile(read, output_path):
                raise InvalidArgument(f"{os.fspath(output_path)!r} is what is read: choose another file", "output_path")
        partial = f"{os.fspath(output_path)}.{os.getpid()}.tmp"
        count = 0
        prefixes = None if target_path is None else _lines_of(target_path)
        try:
            with open(partial, "w", encoding="utf-8", newline="\n") as output:
                for translation in self.translate_iterable(_lines_of(source_path), prefixes, **options):
                    output.write(translation.text + "\n")
                    count += 1
            os.replace(partial, output_path)
        finally:
            if os.path.exists(partial):
                os.unlink(partial)
        return count

    async def translate_async(self, text: str, *, target_prefix: str = "", number: int = 0,
                              timeout: float | None = None, **options: Unpack[DecodingOptions]) -> str:
        """The best translation of a line. Tasks share batches; cancelling the task cancels the line."""
        pending = self.submit(text, target_prefix=target_prefix, number=number, timeout=timeout, **options)
        return (await pending).text

    def score(self, source: str, target: str, **options: Unpack[DecodingOptions]) -> _tril.Score:
        """The log-probability of a given translation, token by token."""
        return self._model.score([(source, target)], self._options(options))[0]

    def score_batch(self, source: Sequence[str], target: Sequence[str],
                    **options: Unpack[DecodingOptions]) -> list[_tril.Score]:
        if isinstance(source, str) or isinstance(target, str):
            raise TypeError("expected lists of texts, got one text: score() takes one")
        if len(source) != len(target):
            raise ValueError(f"{len(source)} sources, but {len(target)} targets")
        return self._model.score(list(zip(source, target)), self._options(options))

    def doubt(self, text: str, *, from_language: str = "") -> str:
        """Why the text is plainly not in the language that the model reads; empty without doubt."""
        options = _tril.Options()
        options.from_language = from_language
        return self._model.doubt(text, options)


_NOTHING = object()


def _prefix_of(prefixes: Iterator[str | None], before: int) -> str:
    try:
        return next(prefixes) or ""
    except StopIteration:
        raise InvalidArgument(f"{before} prefixes, but more lines", "target_prefix") from None


def _lines_of(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n").removesuffix("\r")


class Generator(TextModel):
    """A decoder-only model folder, which continues text."""

    def __init__(
        self, model_path: Path, device: str = "auto", *, device_index: int = 0, compute_type: str = "default",
        inter_threads: int = 1, intra_threads: int = 0,
    ) -> None:
        super().__init__(model_path, device, device_index=device_index, compute_type=compute_type,
                         inter_threads=inter_threads, intra_threads=intra_threads)
        if not self._model.decoder_only:
            raise ValueError(f"{self.model_path} has an encoder: tril.Translator translates with it")

    @overload
    def generate(self, prompt: str, **options: Unpack[DecodingOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def generate(self, prompt: Sequence[str], **options: Unpack[DecodingOptions]) -> list[str]: ...

    def generate(self, prompt: str | Sequence[str], **options: Unpack[DecodingOptions]) -> str | list[str]:
        """The text with its best continuation, or that of each text of a list."""
        if isinstance(prompt, str):
            return self._lines([prompt], None, self._options(options), 0, None)[0].text
        return [each.text for each in self._lines(prompt, None, self._options(options), 0, None)]

    def generate_batch(self, prompts: Sequence[str], *, callback: StepCallback | None = None, first_number: int = 0,
                       **options: Unpack[DecodingOptions]) -> list[_tril.Translation]:
        """Continues texts, each with all its hypotheses; see Translator.translate_batch()."""
        return self._lines(prompts, None, self._options(options), first_number, callback)

    def generate_iterable(self, prompts: Iterable[str], *, first_number: int = 0,
                          **options: Unpack[DecodingOptions]) -> Iterator[_tril.Translation]:
        """Continues any number of texts, in order and in bounded memory."""
        return self._flow(prompts, None, self._options(options), first_number)

    async def generate_async(self, prompt: str, *, number: int = 0, timeout: float | None = None,
                             **options: Unpack[DecodingOptions]) -> str:
        """The text with its best continuation. Tasks share batches; cancelling the task cancels the line."""
        return (await self.submit(prompt, number=number, timeout=timeout, **options)).text

    def score(self, text: str, **options: Unpack[DecodingOptions]) -> _tril.Score:
        """The log-probability of a text, token by token."""
        return self._model.score([("", text)], self._options(options))[0]

    def score_batch(self, texts: Sequence[str], **options: Unpack[DecodingOptions]) -> list[_tril.Score]:
        return self._model.score([("", text) for text in texts], self._options(options))

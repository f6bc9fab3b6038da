"""Text in, text out: every way to ask gives the same, and every fault is one clear error."""

from __future__ import annotations

import concurrent.futures
import copy
import math
import pathlib
import pickle
import threading
from typing import Iterator

import numpy
import pytest

import tril


def texts(results: list[tril.Translation]) -> list[str]:
    return [result.text for result in results]


def test_every_way_gives_the_same(translator: tril.Translator, lines: list[str]) -> None:
    expected = [translator.translate(line) for line in lines]
    assert len(set(expected)) > 20  # the model says something
    assert translator.translate(lines) == expected
    assert texts(translator.translate_batch(lines)) == expected
    assert texts(list(translator.translate_iterable(iter(lines)))) == expected
    assert texts(translator.translate_batch(lines, max_batch_size=3)) == expected
    pending = [translator.submit(line) for line in lines]
    assert [line.result().text for line in pending] == expected
    asked = translator.translate_batch(lines, asynchronous=True)
    assert [line.result().text for line in asked] == expected


def test_many_threads(translator: tril.Translator, lines: list[str]) -> None:
    expected = translator.translate(lines)
    got: dict[int, str] = {}

    def work(first: int) -> None:
        for i in range(first, len(lines), 16):
            got[i] = translator.translate(lines[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[i] for i in range(len(lines))] == expected


def test_n_best(translator: tril.Translator) -> None:
    [result] = translator.translate_batch(["I want tea"], beam_size=6, num_hypotheses=4, return_scores=True)
    assert len(result.hypotheses) == len(result.scores) == len(result.details) == 4
    assert len(set(result.hypotheses)) == 4
    ranks = [each.rank for each in result.details]
    assert ranks == sorted(ranks, reverse=True)
    for text, score, each in zip(result.hypotheses, result.scores, result.details):
        assert each.text == text and each.score == score
        assert math.isclose(sum(each.log_probs), score, rel_tol=1e-6)
        assert len(each.tokens) == len(each.pieces) == len(each.log_probs)
    # More hypotheses than the default beam is wide.
    assert len(translator.translate_batch(["I want tea"], num_hypotheses=9)[0].hypotheses) == 9


def test_scores_are_those_of_score(translator: tril.Translator, lines: list[str]) -> None:
    # Not equal for every line: a text may be spelt in other pieces than those that were chosen.
    results = translator.translate_batch(lines[:50])
    scores = translator.score_batch(lines[:50], texts(results))
    same = sum(score.tokens == result.details[0].tokens for score, result in zip(scores, results))
    assert same > 25
    for score, result in zip(scores, results):
        if score.tokens == result.details[0].tokens:
            assert score.log_probs == result.details[0].log_probs  # training's pass has the bits of decoding


def test_prefix(translator: tril.Translator) -> None:
    plain, forced = translator.translate_batch(["I want tea", "I want tea"], [None, "आप"])
    assert plain.text == translator.translate("I want tea")
    assert forced.text.startswith("आप") and forced.text != plain.text
    assert [r.text for r in translator.translate_iterable(["I want tea"] * 2, [None, "आप"])] == [plain.text, forced.text]
    assert translator.submit("I want tea", target_prefix="आप").result().text == forced.text
    with pytest.raises(tril.InvalidArgument, match="2 lines, but 1 prefixes"):
        translator.translate_batch(["a", "b"], ["c"])


def test_alignments(translator: tril.Translator) -> None:
    [result] = translator.translate_batch(["I want tea"], return_alignments=True)
    best = result.details[0]
    assert best.links and all(0 <= source < 3 for source, _ in best.links)
    weights = best.attention
    assert weights.shape[0] == len(best.tokens)
    assert numpy.allclose(weights.sum(axis=1), 1.0)
    del result, best  # the array keeps what it lies in
    assert numpy.allclose(weights.sum(axis=1), 1.0)
    [plain] = translator.translate_batch(["I want tea"])
    assert plain.details[0].links == [] and plain.details[0].attention.size == 0


def test_sampling_depends_on_the_number(translator: tril.Translator, lines: list[str]) -> None:
    options = tril.DecodingOptions(sampling_topk=0, sampling_temperature=1.5, seed=7)
    other = tril.DecodingOptions(sampling_topk=0, sampling_temperature=1.5, seed=8)
    whole = texts(translator.translate_batch(lines[:40], **options))
    assert whole == texts(translator.translate_batch(lines[:40], **options))
    assert whole != texts(translator.translate_batch(lines[:40], **other))
    # Shards that pass the number of their first line get what the whole file gets.
    parts = [texts(translator.translate_batch(lines[i:i + 10], first_number=i, **options)) for i in range(0, 40, 10)]
    assert sum(parts, []) == whole
    assert texts(list(translator.translate_iterable(lines[10:20], first_number=10, **options))) == whole[10:20]
    assert [translator.submit(lines[i], number=i, **options).result().text for i in range(5)] == whole[:5]
    [several] = translator.translate_batch(lines[:1], num_hypotheses=3, sampling_topk=0)
    assert len(several.hypotheses) == 3
    # As in CTranslate2, a top-k of 1 is the best token.
    assert translator.translate(lines[:20], sampling_topk=1, beam_size=1) == translator.translate(lines[:20], beam_size=1)


def test_bad_lines(translator: tril.Translator) -> None:
    long = "tea " * 200
    with pytest.raises(tril.InvalidArgument, match="^line 2: .* at most") as raised:
        translator.translate_batch(["tea", long, "tea"])
    assert raised.value.code == "invalid_argument" and isinstance(raised.value, ValueError)
    good, bad, after = translator.translate_batch(["tea", long, "tea"], bad_lines="skip")
    assert bad.text == "" and "at most" in bad.skipped
    assert good.text == after.text == translator.translate("tea") and good.skipped == ""
    done = []
    with pytest.raises(tril.InvalidArgument, match="^line 12: "):
        for result in translator.translate_iterable(["tea"], first_number=9):
            done.append(result.number)
        for result in translator.translate_iterable(["tea", long], first_number=10):
            done.append(result.number)
    assert done == [9, 10]
    with pytest.raises(tril.InvalidArgument):
        translator.submit(long).result()
    assert translator.translate("") == "" and translator.translate(["", "  "]) == ["", ""]


def test_what_is_no_text(translator: tril.Translator) -> None:
    with pytest.raises(TypeError, match="text 1 is not text but int"):
        translator.translate_batch(["a", 3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="expected a list of texts"):
        translator.translate_batch("a")
    with pytest.raises(UnicodeEncodeError):
        translator.translate("a\udcff")
    with pytest.raises(UnicodeEncodeError):
        translator.submit("a\udcff")
    with pytest.raises(TypeError, match="text 0 is not text but bytes"):
        list(translator.translate_iterable([b"a"]))  # type: ignore[list-item]


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"beam_size": 0}, tril.InvalidArgument, "beam"),
    ({"beam_size": "4"}, TypeError, "beam_size: '4'"),
    ({"beam": 4}, TypeError, "no option 'beam'"),
    ({"num_hypotheses": 0}, tril.InvalidArgument, "0"),
    ({"beam_size": 2, "num_hypotheses": 3}, tril.InvalidArgument, "3 best translations from a beam of 2"),
    ({"sampling_topp": 1.5}, tril.InvalidArgument, "top_p"),
    ({"early_stopping": "maybe"}, tril.InvalidArgument, "yes, no, never"),
    ({"bad_lines": "drop"}, ValueError, "'error' or 'skip'"),
    ({"from_language": "fr"}, tril.InvalidArgument, "fr"),
    ({"suppress_sequences": [["no such piece"]]}, ValueError, "no piece"),
    ({"suppress_sequences": [[10 ** 6]]}, tril.InvalidArgument, "1000000"),
    ({"shortlist": True}, tril.InputOutput, "shortlist"),
    ({"read_ahead": 0}, tril.InvalidArgument, "window"),
])
def test_options_that_cannot_be_used(translator: tril.Translator, options: dict[str, object],
                                     error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        translator.translate_batch(["I want tea"], **options)  # type: ignore[call-overload]


def test_options_have_an_effect(translator: tril.Translator, lines: list[str]) -> None:
    plain = translator.translate_batch(lines)
    assert all(len(r.details[0].tokens) <= 2 for r in translator.translate_batch(lines, max_decoding_length=2))
    assert all(len(r.details[0].tokens) >= 9 for r in translator.translate_batch(lines, min_decoding_length=9))
    assert texts(translator.translate_batch(lines, length_penalty=5.0)) != texts(plain)
    assert texts(translator.translate_batch(lines, beam_size=1)) != texts(plain)
    piece = plain[0].details[0].pieces[0]
    without = translator.translate_batch(lines[:1], suppress_sequences=[[piece]])
    assert all(piece not in each.details[0].pieces for each in without)


def test_iterable_is_lazy(translator: tril.Translator, lines: list[str]) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield lines[taken % len(lines)]

    stream = translator.translate_iterable(endless(), read_ahead=8)
    assert taken == 0
    for i in range(100):
        assert next(stream).number == i
        assert taken <= i + 9
    stream.close()  # type: ignore[attr-defined]


def test_iterable_raises_what_its_source_raises(translator: tril.Translator) -> None:
    def source() -> Iterator[str]:
        yield "Thank you"
        yield "I want tea"
        raise KeyError("no more")

    done = []
    with pytest.raises(KeyError):
        for result in translator.translate_iterable(source()):
            done.append(result.text)
    assert done == translator.translate(["Thank you", "I want tea"])


def test_callback(translator: tril.Translator, lines: list[str]) -> None:
    seen: dict[int, list[str]] = {}
    results = translator.translate_batch(lines[:20], beam_size=1, first_number=5,
                                         callback=lambda step: seen.setdefault(step.number, []).append(step.text))
    assert sorted(seen) == list(range(5, 25))
    for result in results:
        grown = seen[result.number]
        assert grown[-1] == result.text
        assert all(b.startswith(a) for a, b in zip(grown, grown[1:]))


def test_callback_that_ends_a_line(translator: tril.Translator) -> None:
    seen: list[tril.Step] = []

    def third(step: tril.Step) -> bool:
        seen.append(step)
        return len(seen) == 3

    whole, = translator.translate_batch(["I want tea"], beam_size=1, min_decoding_length=9)
    ended, = translator.translate_batch(["I want tea"], beam_size=1, min_decoding_length=9, callback=third)
    assert len(seen) == 3 and ended.text == seen[-1].text and whole.text.startswith(ended.text)
    best = ended.details[0]
    assert best.tokens == sum((step.tokens for step in seen), []) != whole.details[0].tokens
    assert not best.ended and whole.details[0].ended and len(best.pieces) == len(best.log_probs) == len(best.tokens)


def test_callback_that_raises(translator: tril.Translator) -> None:
    def fail(step: tril.Step) -> None:
        raise KeyError(step.number)

    with pytest.raises(KeyError):
        translator.translate_batch(["I want tea"] * 30, callback=fail)
    assert translator.translate("I want tea")


def test_stream(translator: tril.Translator) -> None:
    stream = translator.stream("I want tea", beam_size=1)
    steps = list(stream)
    result = stream.result()
    assert steps[-1].text == result.text
    assert sum((step.tokens for step in steps), []) == result.details[0].tokens
    assert sum((step.log_probs for step in steps), []) == result.details[0].log_probs
    # Leaving the loop cancels the line.
    left = translator.stream("I want tea", beam_size=1, min_decoding_length=60, max_ratio=0.0)
    for _ in left:
        break
    with pytest.raises(tril.TrilError):
        left.result()


def test_cancel_and_time_out(translator: tril.Translator, lines: list[str]) -> None:
    pending = [translator.submit(line, min_decoding_length=60, max_ratio=0.0) for line in lines]
    for line in pending:
        line.cancel()
    cancelled = sum(isinstance(line.exception(), tril.Cancelled) for line in pending)
    assert cancelled > 0
    late = translator.submit("I want tea", timeout=0.0)
    assert isinstance(late.exception(), tril.TimedOut) and isinstance(late.exception(), TimeoutError)
    busy = [translator.submit(line, min_decoding_length=60, max_ratio=0.0) for line in lines]
    with pytest.raises(TimeoutError):
        busy[-1].result(timeout=0.0)
    for line in busy:
        line.cancel()


def test_result_can_be_taken_again(translator: tril.Translator) -> None:
    pending = translator.submit("I want tea")
    assert pending.result() is pending.result() and pending.done() and pending.exception() is None


def test_done_callback(translator: tril.Translator) -> None:
    called = threading.Event()
    pending = translator.submit("I want tea")
    pending.add_done_callback(lambda line: called.set())
    assert called.wait(30)
    called.clear()
    pending.add_done_callback(lambda line: called.set())  # after it was done
    assert called.wait(30)


def test_a_callback_that_raises_is_told_and_others_still_come(
    translator: tril.Translator, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(line: tril.PendingTranslation) -> None:
        raise RuntimeError("no")

    first = translator.submit("I want tea")
    first.add_done_callback(fails)
    first.result()
    called = threading.Event()
    translator.submit("Thank you").add_done_callback(lambda line: called.set())
    assert called.wait(30)
    assert "a callback of a line raised" in caplog.text


def test_prefixes_are_as_many_as_texts(translator: tril.Translator) -> None:
    texts = ["I want tea"] * 5
    for prefixes in [[], ["a"] * 2, ["a"] * 6]:
        with pytest.raises(tril.InvalidArgument, match="prefixes"):
            translator.translate_batch(texts, target_prefix=prefixes)
        with pytest.raises(tril.InvalidArgument, match="prefixes"):
            list(translator.translate_iterable(texts, prefixes))
    with pytest.raises(TypeError, match="one text"):
        list(translator.translate_iterable("abc"))


@pytest.mark.parametrize("timeout", [1e10, float("inf"), 1e300, 1e9])
def test_long_limits_are_none(translator: tril.Translator, timeout: float) -> None:
    assert translator.submit("I want tea", timeout=timeout).result(timeout).text
    with pytest.raises(ValueError, match="not a number"):
        translator.submit("I want tea", timeout=float("nan"))


def test_threads_ask_for_one_result(translator: tril.Translator) -> None:
    for _ in range(50):
        line = translator.submit("I want tea")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: line.result(), range(4)))
        assert all(each is results[0] for each in results)


def test_one_text_is_not_a_list(translator: tril.Translator) -> None:
    for call in (lambda: tril.evaluate(translator, "abc", "abc"), lambda: translator.prove("abc"),
                 lambda: translator.score_batch("abc", "abc")):
        with pytest.raises(TypeError, match="one text"):
            call()


def test_a_file_is_not_written_over_itself(translator: tril.Translator, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines"
    path.write_text("I want tea\n")
    with pytest.raises(ValueError, match="is what is read"):
        translator.translate_file(path, path)
    assert path.read_text() == "I want tea\n"


def test_whole_text(translator: tril.Translator) -> None:
    text = "  Thank you\n\n\tI want tea. Thank you.\r\n"
    got = translator.translate_text(text)
    assert got.startswith("  ") and got.endswith("\r\n") and got.count("\n") == 3
    assert got.split("\n")[0].strip() == translator.translate("Thank you")
    both = translator.translate_text("I want tea. Thank you.", split="always")
    assert both == f"{translator.translate('I want tea.')} {translator.translate('Thank you.')}"
    with pytest.raises(tril.InvalidArgument, match="never, long, always"):
        translator.translate_text(text, split="sometimes")  # type: ignore[arg-type]


def test_file(translator: tril.Translator, lines: list[str], tmp_path: object) -> None:
    folder = pathlib.Path(str(tmp_path))
    (folder / "in").write_text("\n".join(lines[:30]) + "\n", encoding="utf-8")
    assert translator.translate_file(folder / "in", folder / "out") == 30
    assert (folder / "out").read_text(encoding="utf-8").splitlines() == translator.translate(lines[:30])
    (folder / "bad").write_text("tea\n" + "tea " * 300 + "\n", encoding="utf-8")
    with pytest.raises(tril.InvalidArgument, match="line 2"):
        translator.translate_file(folder / "bad", folder / "never")
    assert sorted(path.name for path in folder.iterdir()) == ["bad", "in", "out"]


def test_pickled_by_its_path(translator: tril.Translator) -> None:
    again = pickle.loads(pickle.dumps(translator))
    assert again.translate("I want tea") == translator.translate("I want tea")
    assert again.model_path == translator.model_path and len(pickle.dumps(translator)) < 1000
    assert copy.deepcopy(translator).device == "cpu"
    error = pickle.loads(pickle.dumps(tril.BadFormat("why", "beam")))
    assert (type(error), str(error), error.field) == (tril.BadFormat, "why", "beam")


def test_models_that_cannot_be_loaded(model_path: str, generator_path: str, tmp_path: object) -> None:
    with pytest.raises(tril.InputOutput, match="no such folder"):
        tril.Translator(f"{tmp_path}/none")
    with pytest.raises(ValueError, match="tril.Generator"):
        tril.Translator(generator_path)
    with pytest.raises(ValueError, match="tril.Translator"):
        tril.Generator(model_path)
    with pytest.raises(tril.InvalidArgument, match="'cpu', 'cuda'"):
        tril.Translator(model_path, device="tpu")
    with pytest.raises(tril.InvalidArgument, match="fp32, bf16, int8, bf16-dot"):
        tril.Translator(model_path, compute_type="int4")
    with pytest.raises(tril.InvalidArgument, match="0 to 1024"):
        tril.Translator(model_path, intra_threads=-1)


def test_compute_types_and_threads(model_path: str, translator: tril.Translator, lines: list[str]) -> None:
    expected = translator.translate(lines[:20])
    assert tril.Translator(model_path, device="cpu", intra_threads=1).translate(lines[:20]) == expected
    assert tril.Translator(model_path, device="cpu", inter_threads=2, intra_threads=1).translate(lines[:20]) == expected
    for asked, name in (("float32", "fp32"), ("bfloat16", "bf16"), ("int8", "int8"), ("default", "fp32")):
        assert tril.Translator(model_path, device="cpu", compute_type=asked).compute_type == name


def test_generator(generator: tril.Generator) -> None:
    text = generator.generate("I want", max_decoding_length=5)
    assert text.startswith("I want")
    assert generator.generate(["I want", "you"], max_decoding_length=5)[0] == text
    results = generator.generate_batch(["I want"] * 3, max_decoding_length=5, sampling_topk=0)
    assert len({result.text for result in results}) > 1
    assert [r.number for r in generator.generate_iterable(["I", "you"], max_decoding_length=5)] == [0, 1]
    score = generator.score("I want tea")
    assert score.score < 0 and math.isclose(sum(score.log_probs), score.score, rel_tol=1e-6)
    assert generator.score_batch(["I want tea"])[0].score == score.score
    assert "".join(step.text for step in generator.stream("I want", beam_size=1, max_decoding_length=5))

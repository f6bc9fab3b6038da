"""Tokenizer, arrays, scores, proof, explanation, and model folders."""

from __future__ import annotations

import os
import pathlib
import pickle
import re

import numpy
import pytest

import tril


def test_tokenizer(translator: tril.Translator, model_path: str, tmp_path: pathlib.Path) -> None:
    tokenizer = translator.tokenizer
    ids = tokenizer.encode("I want tea")
    assert tokenizer.decode(ids) == "I want tea"
    assert tokenizer.encode_source("I want tea") == [*ids, tokenizer.end]
    assert tokenizer.encode_target("चाय")[-1] == tokenizer.end
    assert [tokenizer.piece(i) for i in ids] == tokenizer.pieces("I want tea")
    assert tokenizer.find(tokenizer.piece(ids[0])) == ids[0] and tokenizer.find("no such piece") is None
    assert max(ids) < tokenizer.vocab == 400 and tokenizer.lossless
    for same in (tril.Tokenizer(model_path), tril.Tokenizer(f"{model_path}/tokenizer.model"),
                 pickle.loads(pickle.dumps(tokenizer))):
        assert same.encode("I want tea") == ids
    tokenizer.save(str(tmp_path / "t.model"))
    assert (tmp_path / "t.model").read_bytes() == pathlib.Path(model_path, "tokenizer.model").read_bytes()
    with pytest.raises(tril.InvalidArgument):
        tokenizer.decode([10 ** 6])
    with pytest.raises(tril.BadFormat):
        tril.Tokenizer(__file__)


def test_tokenizer_is_learnt_from_any_iterable() -> None:
    lines = (f"the number {i} of the numbers" for i in range(50))
    tokenizer = tril.Tokenizer.train(lines, vocab=300)
    assert tokenizer.decode(tokenizer.encode("the numbers")) == "the numbers"
    with pytest.raises(tril.InvalidArgument, match="bpe, unigram"):
        tril.Tokenizer.train(["a"], type="words")

    def fails() -> object:
        yield "a"
        raise KeyError("b")

    with pytest.raises(KeyError):
        tril.Tokenizer.train(fails(), vocab=300)  # type: ignore[arg-type]


def test_forward(translator: tril.Translator, model_path: str) -> None:
    [result] = translator.translate_batch(["I want tea"], beam_size=1)
    best = result.details[0]
    tokenizer = translator.tokenizer
    source = tokenizer.encode_source("I want tea")
    start = tokenizer.start
    assert start is not None
    given = [start, *best.tokens[:-1]]
    numbers = translator.forward(source, given, attention=True)
    logits = numbers.logits
    assert logits.shape == (len(given), tokenizer.vocab) and logits.dtype == numpy.float32
    # The parallel pass predicts what decoding chose, and its numbers are those of decoding.
    exact = logits.astype(numpy.float64)
    log_probs = exact - numpy.log(numpy.exp(exact).sum(axis=1, keepdims=True))
    for row, (token, log_prob) in enumerate(zip(best.tokens, best.log_probs)):
        assert abs(log_probs[row, token] - log_prob) < 1e-5
    assert numbers.hidden.shape == (len(given), 32)
    # Not copied: two views of the same memory, which outlives the pass.
    assert numpy.shares_memory(numbers.logits, logits)
    before = logits.copy()
    del numbers
    translator.translate(["I want tea"] * 20)
    assert numpy.array_equal(logits, before)
    # Row i depends on what stands before it alone, in bits.
    shorter = translator.forward(source, given[:2])
    assert numpy.array_equal(shorter.logits, before[:2])
    # Of text, as the tokenizer lays it out.
    text = translator.forward("I want tea", "चाय")
    assert text.source == source and text.target_pieces[0] == "<s>" and text.source_pieces[-1] == "</s>"
    numpy.from_dlpack(text.logits_array)
    assert memoryview(text.hidden_array).shape == text.hidden.shape
    with pytest.raises(tril.InvalidArgument, match="attention=True"):
        text.attention()
    with pytest.raises(tril.InvalidArgument, match="no target"):
        translator.forward(source, [])
    with pytest.raises(tril.TrilError):
        translator.forward(source, [10 ** 6])


def test_attention_weights(translator: tril.Translator) -> None:
    numbers = translator.forward("I want tea", "आप कैसे हैं", attention=True)
    rows = len(numbers.target)
    for which, keys in (("decoder", rows), ("cross", len(numbers.source)), ("encoder", len(numbers.source))):
        weights = numbers.attention(which, 0)  # type: ignore[arg-type]
        assert weights.shape == (2, len(numbers.source) if which == "encoder" else rows, keys)
        assert numpy.allclose(weights.sum(axis=2), 1.0)
    future = numpy.triu(numpy.ones((rows, rows), bool), k=1)
    assert (numbers.attention()[:, future] == 0.0).all() and (numbers.attention()[:, ~future] > 0.0).all()
    with pytest.raises(tril.InvalidArgument, match="layer 3"):
        numbers.attention("decoder", 3)
    with pytest.raises(tril.InvalidArgument, match="'encoder', 'decoder' or 'cross'"):
        numbers.attention("self")  # type: ignore[arg-type]


def test_attention_is_what_alignments_say(translator: tril.Translator) -> None:
    """return_alignments averages the heads of the last layer but one, here the only one."""
    [result] = translator.translate_batch(["I want tea"], beam_size=1, return_alignments=True)
    best = result.details[0]
    start = translator.tokenizer.start
    assert start is not None
    numbers = translator.forward("I want tea", [start, *best.tokens[:-1]], attention=True)
    assert numpy.allclose(numbers.attention("cross").mean(axis=0), best.attention, atol=1e-6)


def test_generators_forward(generator: tril.Generator) -> None:
    numbers = generator.forward("", "I want", attention=True)
    assert numbers.source == [] and numbers.logits.shape[0] == len(numbers.target)
    with pytest.raises(tril.InvalidArgument):
        numbers.attention("cross")


def test_evaluate(translator: tril.Translator) -> None:
    pairs = tril.phrasebook()[1][:40]
    sources, references = [p[0] for p in pairs], [p[1] for p in pairs]
    scores = tril.evaluate(translator, sources, references)
    assert scores.segments == 40 and 0 < scores.bleu < 100 and 0 < scores.chrf < 100
    again = tril.score_texts(translator.translate(sources), [[r, "x"] for r in references])
    assert again.exact == scores.exact
    assert str(scores).startswith("BLEU|nrefs:1|") and "nrefs:2" in again.bleu_signature
    perfect = tril.score_texts(references, references)
    assert perfect.bleu == pytest.approx(100.0) and perfect.exact == 40 and perfect.chrf_plus_plus == 100.0
    with pytest.raises(ValueError, match="40 sources, but 39"):
        tril.evaluate(translator, sources, references[1:])
    with pytest.raises(ValueError, match="more translations"):
        tril.score_texts(references, references[1:])
    with pytest.raises(tril.InvalidArgument, match="13a, intl, char, none"):
        tril.score_texts(references, references, tokenize="words")
    with pytest.raises(tril.InvalidArgument, match="at least one segment"):
        tril.score_texts([], []).bleu


def test_prove(translator: tril.Translator) -> None:
    seen = []
    proof = translator.prove(["I want tea", "Thank you"], progress=lambda what, done, of: seen.append(what))
    assert proof and proof.holds and proof.failed == [] and seen
    assert proof.logits_compared > 1000 and proof.logits_differing == 0 and proof.positions_poisoned > 0
    assert all(holds for _, _, holds, _, _ in proof.agreement)
    assert "0 differ in any bit" in str(proof) and "<table>" in proof._repr_html_()
    # Without the mask it finds the leak.
    unmasked = translator.prove(["I want tea", "Thank you"], masked=False)
    assert not unmasked and "agreement" in unmasked.failed and "leaks" in unmasked.failed
    assert unmasked.logits_differing > 0
    with pytest.raises(tril.InvalidArgument, match="2 texts, but 1 targets"):
        translator.prove(["a", "b"], ["c"])


def test_explain(translator: tril.Translator, tmp_path: pathlib.Path) -> None:
    explanation = translator.explain("I want tea", target="मुझे चाय चाहिए")
    assert explanation.numbers_compared > 0 and explanation.numbers_differing == 0
    assert explanation.training_calls == 1 and explanation.decoding_calls > 1
    assert explanation.target == "मुझे चाय चाहिए" and explanation.sentence == "I want tea"
    assert explanation.translation == translator.translate("I want tea")
    frame = explanation._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!')
    # Nothing of the page ends the attribute.
    attribute = re.fullmatch(r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)" style="[^"]*" title="[^"]*"></iframe>', frame)
    assert attribute is not None and "<" not in attribute[1]
    explanation.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == explanation.html
    with pytest.raises(tril.InvalidArgument):
        translator.explain("")


def test_export_import_quantize_verify(model_path: str, translator: tril.Translator, lines: list[str],
                                       tmp_path: pathlib.Path) -> None:
    config = pathlib.Path(model_path, "config.json").read_text(encoding="utf-8")
    assert '"norm_position": "pre"' in config  # which Pegasus has, so that it can leave
    try:
        report = tril.export_model(model_path, tmp_path / "theirs")
    except tril.Unsupported as error:
        assert error.code == "unsupported"
    else:
        assert report.tensors > 0 and (tmp_path / "theirs/config.json").exists()
        back = tril.import_model(tmp_path / "theirs", tmp_path / "back")
        assert back.parameters > 0
        assert tril.Translator(tmp_path / "back", device="cpu").translate(lines[:5])
        with pytest.raises(tril.InvalidArgument):
            tril.import_model(tmp_path / "theirs", tmp_path / "back")
    tril.quantize(model_path, "int8", tmp_path / "small")
    small = tril.Translator(tmp_path / "small")
    assert small.compute_type == "int8" and small.device == "cpu" and small.translate(lines[0])
    assert {file.state for file in tril.verify(tmp_path / "small")} == {"sound"}
    packed = tmp_path / "small/packed.int8.safetensors"
    damaged = bytearray(packed.read_bytes())
    damaged[-7] ^= 1
    os.unlink(packed)
    packed.write_bytes(damaged)
    assert "damaged" in {file.state for file in tril.verify(tmp_path / "small")}
    with pytest.raises(tril.BadFormat):
        tril.Translator(tmp_path / "small")


def test_what_a_model_says_about_itself(translator: tril.Translator) -> None:
    assert translator.device == "cpu" and translator.parameters > 10_000 and translator.languages == []
    assert "en-hi" in repr(translator) and isinstance(translator.notices, list)
    assert translator.doubt("I want tea") == ""
    assert isinstance(tril.device_problem(), str) and re.fullmatch(r"\d+\.\d+\.\d+", tril.__version__)

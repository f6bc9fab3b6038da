"""CTranslate2 on the same translation: base shape, SiLU, post-norm, random weights."""

import gc
import os
import time

import numpy

import work

MODEL, INNER, HEADS, LAYERS = 512, 2048, 8, 6


def token_ids():
    random = numpy.random.default_rng(2)
    return [random.integers(4, work.TRANSLATION_VOCAB, length).tolist() for length in work.LENGTHS]


def sentences():
    return [["t%d" % token for token in line] for line in token_ids()]


def ctranslate2_model(cache, compute):
    """The folder of the model in the cache: "fp32" or "int8"; made the first time."""
    folder = os.path.join(cache, f"ctranslate2-{compute}")
    if not os.path.exists(os.path.join(folder, "model.bin")):
        print(f"  making {folder} (once)", flush=True)
        make_ctranslate2_model(folder, "int8" if compute == "int8" else None)
    return folder


def make_ctranslate2_model(folder, quantization):
    from ctranslate2.specs import TransformerSpec, common_spec

    spec = TransformerSpec.from_config((LAYERS, LAYERS), HEADS, pre_norm=False,
                                       activation=common_spec.Activation.SWISH)
    random = numpy.random.default_rng(1)

    def linear(layer, out, inner):
        bound = numpy.float32((6 / (out + inner)) ** 0.5)
        layer.weight = (random.random((out, inner), dtype=numpy.float32) * 2 - 1) * bound
        layer.bias = numpy.zeros(out, numpy.float32)

    def norm(layer):
        layer.gamma = numpy.ones(MODEL, numpy.float32)
        layer.beta = numpy.zeros(MODEL, numpy.float32)

    def attention(layer, sizes):
        for part, size in zip(layer.linear, sizes):
            linear(part, size, MODEL)
        norm(layer.layer_norm)

    def feed_forward(layer):
        linear(layer.linear_0, INNER, MODEL)
        linear(layer.linear_1, MODEL, INNER)
        norm(layer.layer_norm)

    table = random.standard_normal((work.TRANSLATION_VOCAB, MODEL), dtype=numpy.float32) * numpy.float32(MODEL**-0.5)
    places = numpy.zeros((512, MODEL), numpy.float32)
    spec.encoder.embeddings[0].weight = table
    spec.encoder.position_encodings.encodings = places
    spec.decoder.embeddings.weight = table
    spec.decoder.position_encodings.encodings = places
    spec.decoder.projection.weight = table
    spec.decoder.projection.bias = numpy.zeros(work.TRANSLATION_VOCAB, numpy.float32)
    for layer in spec.encoder.layer:
        attention(layer.self_attention, (3 * MODEL, MODEL))
        feed_forward(layer.ffn)
    for layer in spec.decoder.layer:
        attention(layer.self_attention, (3 * MODEL, MODEL))
        attention(layer.attention, (MODEL, 2 * MODEL, MODEL))
        feed_forward(layer.ffn)
    words = ["<pad>", "<unk>", "<s>", "</s>"] + ["t%d" % i for i in range(4, work.TRANSLATION_VOCAB)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    spec.optimize(quantization=quantization)
    os.makedirs(folder, exist_ok=True)
    spec.save(folder)


def ctranslate2_seconds(folder, compute, batch, beam, inter, intra):
    """All sentences once, after a few to warm up."""
    import ctranslate2

    translator = ctranslate2.Translator(folder, device="cpu", compute_type=compute, inter_threads=inter,
                                        intra_threads=intra)
    options = dict(beam_size=beam, max_decoding_length=work.TOKENS_OUT, min_decoding_length=work.TOKENS_OUT)
    lines = sentences()

    def run(some):
        if batch == 1:
            results = [translator.translate_batch([line], **options)[0] for line in some]
        else:
            results = translator.translate_batch(some, max_batch_size=batch, **options)
        assert all(len(result.hypotheses[0]) == work.TOKENS_OUT for result in results)

    run(lines[:4])
    started = time.perf_counter()
    run(lines)
    seconds = time.perf_counter() - started
    del translator
    gc.collect()
    return seconds

"""CTranslate2 on the same translation: base shape, SiLU, post-norm, random weights."""

import json
import os
import subprocess
import sys

import numpy

import work

MODEL, INNER, HEADS, LAYERS = 512, 2048, 8, 6


def token_ids():
    random = numpy.random.default_rng(2)
    return [random.integers(4, work.TRANSLATION_VOCAB, length).tolist() for length in work.LENGTHS]


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


def ctranslate2_process(task):
    """What a fresh process with this task prints; see ctranslate2_process.py."""
    here = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, os.path.join(here, "ctranslate2_process.py"), json.dumps(task)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def ctranslate2_seconds(folder, compute, batch, beam, inter, intra):
    """All sentences once, in a process of its own that has translated them before."""
    task = {"folder": folder, "compute": compute, "batch": batch, "beam": beam, "tokens": work.TOKENS_OUT,
            "inter": inter, "intra": intra, "lines": list(range(len(work.LENGTHS))), "timed": True}
    return ctranslate2_process(task)["seconds"]

"""Makes the golden files of tests/models/golden_test.cpp: whole models against PyTorch in float64.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch numpy safetensors
    /tmp/golden/bin/python tests/golden/make_golden.py               # writes tests/golden/<case>/
    /tmp/golden/bin/python tests/golden/make_golden.py --list 2      # writes those of one list
    /tmp/golden/bin/python tests/golden/make_golden.py --check       # the same bytes again?
    /tmp/golden/bin/python tests/golden/make_golden.py --breakages   # would the test see a fault?

Made with Python 3.11.7, torch 2.15.0, numpy 2.4.6, safetensors 0.8.0 on x86-64: the same versions
on the same kind of machine give the same bytes. PyTorch is an oracle only; nothing of it is needed
to build or test tril.

A case is a model folder (config.json, model.safetensors) and case.safetensors:
    {source,target}.{tokens,slots,positions}, target.segments, labels, prefix    I32
    smoothing, factor                                                            F32
    logits, loss, gradient.<parameter>                                           F64
    bound.logits, bound.loss, bound.gradient.<parameter>     BF16, rounded up: see rounding.py
"""

import argparse
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save

import reference
import rounding
from reference import Exact, Model, run

HERE = os.path.dirname(os.path.abspath(__file__))

# The fields of TransformerConfig in their order. Dropout is written and, without a seed, unused.
DEFAULTS = dict(
    source_vocab=0, target_vocab=19, model=12, heads=2, kv_heads=2, head_dim=6, feed_forward=20,
    encoder_layers=0, decoder_layers=1, norm="layer", norm_position="post", norm_epsilon=1e-5,
    activation="relu", gated=False, position="sinusoidal", max_length=16, window=0, tied=True,
    bias=True, output_bias=False, embedding_norm=False, embedding_scale=True, dropout=0.1)


class Case:
    """source: lengths of sentences, or -n for n filler rows.
    target: (length, segment) or -n; smoothing; prefix; embedding: the size of the embeddings."""

    def __init__(self, config, target, source=(), smoothing=0.1, prefix=0, embedding=1.0,
                 filler_position=0):
        self.config = {**DEFAULTS, **config}
        self.target, self.source = target, source
        self.smoothing, self.prefix = smoothing, prefix
        self.embedding, self.filler_position = embedding, filler_position


PAIRS = dict(source_vocab=19, encoder_layers=1)
CASES = {
    # The Transformer of 2017.
    "post_norm": Case(
        dict(PAIRS, encoder_layers=2, decoder_layers=2), source=(5, 7, 3, -2),
        target=((6, 0), (4, 1), (8, 2), -3)),
    # Its pre-norm form with everything apart: vocabularies, matrices, depths, learned positions.
    "pre_norm_untied": Case(
        dict(source_vocab=23, target_vocab=17, encoder_layers=2, decoder_layers=1,
             norm_position="pre", activation="gelu", position="learned", tied=False,
             output_bias=True, max_length=10, model=16, heads=4, kv_heads=4, head_dim=4),
        source=(4, 9, -1), target=((5, 1), (7, 0), -1), smoothing=0.0),
    # The parts of current models, as an encoder-decoder; heads larger than model / heads.
    "rotary_gated_rms": Case(
        dict(PAIRS, norm_position="pre", norm="rms", activation="silu", gated=True,
             position="rotary", bias=False, tied=False, heads=4, kv_heads=2, head_dim=4,
             norm_epsilon=1e-6, encoder_layers=1, decoder_layers=2),
        source=(6, 5, -1), target=((7, 0), (5, 1), -2)),
    # Linear biases with rotary positions: here a key's bias matters.
    "rotary_bias_post": Case(
        dict(PAIRS, position="rotary", activation="silu", heads=3, kv_heads=3, head_dim=6,
             output_bias=True, norm_epsilon=1e-3),
        source=(6, 5), target=((9, 1), (4, 0)), smoothing=0.2),
    "decoder_only_rms": Case(
        dict(norm_position="pre", norm="rms", activation="silu", gated=True, position="rotary",
             bias=False, decoder_layers=2, kv_heads=1, heads=3, head_dim=8, model=20,
             target_vocab=29),
        target=((9, -1), (5, -1), (12, -1), -2)),
    "decoder_only_learned": Case(
        dict(norm_position="pre", activation="gelu", position="learned", decoder_layers=2,
             embedding_scale=False), embedding=0.1,
        target=((9, -1), (1, -1), (7, -1), -3), smoothing=0.0),
    "window_alibi": Case(
        dict(position="alibi", window=3, activation="gelu", gated=True, decoder_layers=2, heads=4,
             kv_heads=2, head_dim=3, norm_epsilon=1e-4),
        target=((10, -1), (2, -1), (6, -1), -1)),
    # Prefix-LM: one sequence is shorter than the prefix, and two rows see less by the window.
    "prefix_window": Case(
        dict(position="sinusoidal", window=6, gated=True, output_bias=True, norm="rms",
             norm_position="post", decoder_layers=2),
        target=((9, -1), (3, -1), (8, -1), -1), prefix=4),
    # Two targets of one source, a source without a target, different orders, a bias in both masks.
    "alibi_shared_source": Case(
        dict(PAIRS, position="alibi", norm="rms", heads=4, kv_heads=1, head_dim=4, decoder_layers=2,
             activation="gelu", tied=False, bias=False),
        source=(4, 6, 5), target=((5, 2), (6, 0), (3, 2), -1)),
    # Small embeddings, so that the norm's epsilon is seen.
    "embedding_norm": Case(
        dict(PAIRS, source_vocab=21, embedding_norm=True, embedding_scale=False, tied=False,
             position="learned", max_length=9, encoder_layers=1, decoder_layers=1, model=16,
             heads=2, head_dim=8),
        source=(8, 3), target=((6, 0), (9, 1), -1), embedding=0.02),
    # No positions at all; padding between, before and after the sentences, at positions of its own.
    "padding": Case(
        dict(PAIRS, position="none", norm="rms", norm_position="pre", activation="gelu", gated=True,
             embedding_norm=True, output_bias=True, head_dim=5),
        source=(-2, 5, -3, 7, -1, 1, -4), target=(-1, (4, 2), -4, (6, 0), -2, (1, 1), -5),
        filler_position=3),
    # The activation of GPT-2, gated as in current models that use it.
    "gelu_tanh": Case(
        dict(norm_position="pre", activation="gelu-tanh", gated=True, position="learned",
             decoder_layers=2, heads=3, kv_heads=3, head_dim=4),
        target=((9, -1), (4, -1), (7, -1), -2)),
    # More than one block of 64 keys, and a window that leaves the first one; model over 16 lanes.
    "long_window": Case(
        dict(position="rotary", window=50, norm_position="pre", activation="gelu", max_length=80,
             model=20, heads=2, kv_heads=1, head_dim=6, feed_forward=36, target_vocab=17),
        target=((75, -1), -1)),
}


# What other people's models have (config.json format 2). The bounds depend on how many elements a
# list has, so that new cases make a new list and leave the files of the others as they are.
MORE = {
    # T5: a learnt bias by distance, with sentences that go beyond its last bucket; no scale of
    # scores, one of hidden states, gated gelu-tanh without biases.
    "relative_bias": Case(
        dict(PAIRS, norm_position="pre", norm="rms", norm_epsilon=1e-6, activation="gelu-tanh",
             gated=True, position="relative", bias=False, decoder_layers=2, encoder_layers=2,
             heads=2, head_dim=4, max_length=24, embedding_scale=False, attention_scale=1.0,
             output_scale=0.3, relative_buckets=8, relative_distance=12),
        source=(17, 5, -1), target=((19, 0), (4, 1), -2), embedding=0.8),
    # Source and target are one matrix, the output another; biases of queries, keys and values.
    "shared_source_target": Case(
        dict(PAIRS, tied=False, share_source_target=True, bias_in="attention-input",
             position="sinusoidal", output_bias=True, output_scale=1.5),
        source=(6, 4), target=((5, 0), (7, 1), -1)),
    # Target and output are one matrix; ALiBi as its authors' code has it; biases in attention.
    "shared_target_output": Case(
        dict(PAIRS, source_vocab=13, tied=False, share_target_output=True, bias_in="attention",
             position="alibi", alibi_slopes="authors", heads=6, kv_heads=3, head_dim=2,
             norm_position="pre", attention_scale=0.9),
        source=(6, 4), target=((8, 0), (5, 1))),
    # Llama 3.1: scaled rotary frequencies, high, low and between, all rounded to fp32.
    "rotary_llama3": Case(
        dict(norm_position="pre", norm="rms", activation="silu", gated=True, position="rotary",
             heads=3, kv_heads=1, head_dim=12, max_length=80, target_vocab=17, rotary_base=500.0,
             rotary_rounded=True, rotary_scaling="llama3", rotary_factor=8.0, rotary_length=128,
             bias_in="feed-forward"),
        target=((77, -1), (9, -1))),
    "rotary_linear": Case(
        dict(norm_position="pre", position="rotary", rotary_base=20000.0, rotary_scaling="linear",
             rotary_factor=4.0), target=((14, -1), (9, -1))),
}
LISTS = (CASES, MORE)
ALL = {**CASES, **MORE}


def parameter_shapes(c):
    """Every tensor of a model folder."""
    shapes = {}

    place = c.get("bias_in", "all")

    def linear(name, out, into, places):
        shapes[name + ".weight"] = (out, into)
        if c["bias"] and place in ("all", *places):
            shapes[name + ".bias"] = (out,)

    def norm(name):
        shapes[name + ".weight"] = (c["model"],)
        if c["norm"] == "layer":
            shapes[name + ".bias"] = (c["model"],)

    def attention(name):
        into = ("attention", "attention-input")
        linear(name + ".query", c["heads"] * c["head_dim"], c["model"], into)
        linear(name + ".key", c["kv_heads"] * c["head_dim"], c["model"], into)
        linear(name + ".value", c["kv_heads"] * c["head_dim"], c["model"], into)
        linear(name + ".output", c["model"], c["heads"] * c["head_dim"], ("attention",))
        norm(name + "_norm")

    def feed_forward(name):
        for part in ("in", "gate") if c["gated"] else ("in",):
            linear(f"{name}.{part}", c["feed_forward"], c["model"], ("feed-forward",))
        linear(name + ".out", c["model"], c["feed_forward"], ("feed-forward",))
        norm(name + "_norm")

    sides = ["source", "target"] if c["encoder_layers"] else ["target"]
    if c["tied"]:
        shapes["embedding.weight"] = (c["target_vocab"], c["model"])
    elif not c.get("share_target_output"):
        shapes["output.weight"] = (c["target_vocab"], c["model"])
    if c["position"] == "relative":
        for stack in ("encoder", "decoder") if c["encoder_layers"] else ("decoder",):
            shapes[stack + ".relative_bias.weight"] = (c.get("relative_buckets", 32), c["heads"])
    for side in sides:
        if not c["tied"] and (side == "target" or not c.get("share_source_target")):
            shapes[side + "_embedding.weight"] = (c[side + "_vocab"], c["model"])
        if c["position"] == "learned":
            shapes[side + "_position.weight"] = (c["max_length"], c["model"])
        if c["embedding_norm"]:
            norm(side + "_embedding_norm")
    if c["output_bias"]:
        shapes["output.bias"] = (c["target_vocab"],)
    for i in range(c["encoder_layers"]):
        attention(f"encoder.{i}.attention")
        feed_forward(f"encoder.{i}.feed_forward")
    for i in range(c["decoder_layers"]):
        attention(f"decoder.{i}.attention")
        if c["encoder_layers"]:
            attention(f"decoder.{i}.cross_attention")
        feed_forward(f"decoder.{i}.feed_forward")
    if c["norm_position"] == "pre":
        if c["encoder_layers"]:
            norm("encoder.norm")
        norm("decoder.norm")
    return shapes


def draw_weights(case, random):
    """Uniform fp32 values, as float64: larger than one would start training with, so that softmaxes
    are far from flat; norms away from one and biases away from zero."""
    weights = {}
    for name, shape in sorted(parameter_shapes(case.config).items()):
        values = 2 * random.random(shape, dtype=np.float32) - 1
        if name.endswith("norm.weight"):
            values = 1 + values / 2
        elif name.endswith("bias"):
            values = values / 2
        elif "embedding" in name or "position" in name:
            values = values * np.float32(case.embedding / math.sqrt(3))
            if case.config["tied"] and case.config["embedding_scale"]:
                values = values / 2
        else:
            values = values * np.float32(2 * math.sqrt(3 / shape[1]))
        weights[name] = torch.from_numpy(values.astype(np.float32)).double()
    return weights


def draw_batch(case, random):
    c = case.config

    def rows(spec, vocab, slots):
        columns = {"tokens": [], "slots": [], "positions": [], "segments": []}
        slots = iter(slots)
        for entry in spec:
            filler = isinstance(entry, int) and entry < 0
            length, segment = (abs(entry), -1) if isinstance(entry, int) else entry
            slot = -1 if filler else next(slots)
            for i in range(length):
                columns["tokens"].append(int(random.integers(vocab)))
                columns["slots"].append(slot)
                columns["positions"].append(case.filler_position if filler else i)
                columns["segments"].append(segment)
        return {name: torch.tensor(column) for name, column in columns.items()}

    batch = {"prefix": case.prefix, "smoothing": float(np.float32(case.smoothing))}
    if case.source:
        batch["source"] = rows(case.source, c["source_vocab"], range(len(case.source)))
    # Under a tape a slot may be any number.
    batch["target"] = rows(case.target, c["target_vocab"], (7, 2, 11, 3, 5))
    counts = lambda slot: slot >= 0 and random.random() > 0.15
    labels = [int(random.integers(c["target_vocab"])) if counts(slot) else -1
              for slot in batch["target"]["slots"].tolist()]
    batch["labels"] = torch.tensor(labels)
    batch["factor"] = float(np.float32(1 / max(1, sum(label >= 0 for label in labels))))
    return batch


def draw(name):
    case = ALL[name]
    random = np.random.Generator(np.random.PCG64(list(name.encode())))
    weights = draw_weights(case, random)
    return case, weights, draw_batch(case, random)


class Watch(Exact):
    """How near relu comes to its kink, where no error bound of first order holds."""

    nearest = math.inf

    def activation(self, kind, x):
        if kind == "relu":
            self.nearest = min(self.nearest, float(x.detach().abs().min()))
        return super().activation(kind, x)


def expected_of(name):
    case, weights, batch = draw(name)
    watch = Watch()
    expected = run(case.config, weights, batch, watch)
    assert watch.nearest > 1e-5, f"{name}: relu within {watch.nearest} of its kink"
    # The rounded operations without their errors are PyTorch's own.
    silent = run(case.config, weights, batch, rounding.Rounded(rounding.Noise()))
    for key, value in expected.items():
        assert torch.isfinite(value).all(), f"{name}: {key} is not finite"
        apart = float((value - silent[key]).abs().max())
        assert apart < 1e-11 * (1 + float(value.abs().max())), f"{name}: {key} apart by {apart}"
    return case, weights, batch, expected


def deviations(name, case, weights, batch, expected):
    """The standard deviation of each element's rounding error."""
    squares = {key: torch.zeros_like(value) for key, value in expected.items()}
    first = 1000 * list(ALL).index(name)
    for seed in range(first, first + rounding.RUNS):
        noisy = run(case.config, weights, batch, rounding.Rounded(rounding.Noise(seed)))
        for key in squares:
            squares[key] += (noisy[key] - expected[key]) ** 2
    return {key: (value / rounding.RUNS).sqrt() for key, value in squares.items()}


def bf16_up(x):
    rounded = x.to(torch.bfloat16)
    low = rounded.double() < x
    bits = rounded.view(torch.int16) + low.to(torch.int16)
    return bits.view(torch.bfloat16)


def build(cases):
    """{path: bytes} of every file of a list."""
    results = {name: expected_of(name) for name in cases}
    elements = sum(v.numel() for r in results.values() for v in r[3].values())
    t = rounding.student_quantile(rounding.FALSE_ALARM / elements, rounding.RUNS)
    print(f"{elements} elements, bounds of {t:.3f} standard deviations", file=sys.stderr)
    files = {}
    for name, (case, weights, batch, expected) in results.items():
        int32 = lambda values: torch.as_tensor(values).to(torch.int32).reshape(-1)
        tensors = {"labels": int32(batch["labels"]), "prefix": int32(batch["prefix"]),
                   "smoothing": torch.tensor([batch["smoothing"]], dtype=torch.float32),
                   "factor": torch.tensor([batch["factor"]], dtype=torch.float32)}
        for side in ("source", "target"):
            for column, values in batch.get(side, {}).items():
                if (side, column) != ("source", "segments"):
                    tensors[f"{side}.{column}"] = int32(values)
        deviation = deviations(name, case, weights, batch, expected)
        for key, value in expected.items():
            tensors[key] = value.contiguous()
            tensors["bound." + key] = bf16_up(t * deviation[key])
        second = any(field not in DEFAULTS for field in case.config)
        config = {"format": 2 if second else 1, "architecture": "transformer", **case.config}
        files[f"{name}/config.json"] = (json.dumps(config, indent=2) + "\n").encode()
        files[f"{name}/model.safetensors"] = save({n: w.float() for n, w in weights.items()})
        files[f"{name}/case.safetensors"] = save(tensors)
        scale = lambda key: float(
            tensors["bound." + key].double().max() / expected[key].abs().max())
        print(f"{name}: loss {float(expected['loss']):.6f}; bound over largest value in units of "
              f"2^-24: logits {scale('logits') / rounding.U:.0f}, loss "
              f"{scale('loss') / rounding.U:.0f}", file=sys.stderr)
    return files


# Faults that the files must show, each as a change of the reference: {name: (ops, model, config)}.


def faults():
    def ops(**methods):
        return type("Broken", (Exact,), methods)()

    def without(suffix):
        class Broken(Model):
            def __init__(self, config, weights, operations):
                weights = {n: w for n, w in weights.items() if not n.endswith(suffix)}
                super().__init__(config, weights, operations)
        return Broken

    def masks(target=None, source=None):
        class Broken(Model):
            def forward(self, batch):
                kept = reference.decoder_mask, reference.encoder_mask
                reference.decoder_mask = target or kept[0]
                reference.encoder_mask = source or kept[1]
                try:
                    return super().forward(batch)
                finally:
                    reference.decoder_mask, reference.encoder_mask = kept
        return Broken

    def norm_by(function):
        return ops(norm=lambda self, kind, x, w, b, e: function(kind, x, w, b, e))

    def unbiased(kind, x, w, b, e):
        if kind == "rms":
            return F.rms_norm(x, x.shape[-1:], w, e)
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + e) * w + b

    def still_mean(kind, x, w, b, e):
        if kind == "rms":
            return F.rms_norm(x, x.shape[-1:], w, e)
        y = (x - x.mean(-1, keepdim=True).detach())
        return y / torch.sqrt(x.var(-1, correction=0, keepdim=True) + e) * w + b

    def outside(kind, x, w, b, e):
        d = x if kind == "rms" else x - x.mean(-1, keepdim=True)
        y = d / ((d * d).mean(-1, keepdim=True).sqrt() + e) * w
        return y if b is None else y + b

    def cheap_erf(x):
        # Abramowitz and Stegun 7.1.25: within 2.5e-5.
        t = 1 / (1 + 0.47047 * x.abs())
        poly = t * (0.3480242 + t * (-0.0958798 + t * 0.7478556))
        return x.sign() * (1 - poly * torch.exp(-x * x))

    def gelu_by(function, of="gelu"):
        return ops(activation=lambda self, kind, x: function(x) if kind == of else
                   Exact.activation(self, kind, x))

    def pairs(self, x, cos, sin):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)

    def scaled_scores(change):
        return ops(attention=lambda self, q, k, v, scale, bias, mask: Exact.attention(
            self, q, k, v, change(scale, q), bias, mask))

    def no_zero_rows(self, q, k, v, scale, bias, mask):
        # The mean of all values instead of zero, as with a mask of -1e9.
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        scores = q @ k.transpose(1, 2) * scale + (0 if bias is None else bias)
        return (F.softmax(scores + mask.clamp(min=-1e9), dim=-1) @ v).transpose(0, 1)

    def softmax_off(self, q, k, v, scale, bias, mask):
        # Each weight off by up to 1e-5 of itself, as by a cheap exponential.
        out = Exact.attention(self, q, k, v, scale, bias, mask)
        return out * (1 + 1e-5 * torch.cos(1000 * out.detach()))

    def rows_mask(change):
        def mask(target, prefix, window):
            return reference.zero_or_minus_inf(change(target, prefix, window))
        return mask

    def visible(target, prefix, window, causal=0):
        i, j = target["positions"][:, None], target["positions"][None, :]
        allowed = reference.same_sequence(target["slots"], target["slots"])
        allowed &= (j <= i + causal) | (j < prefix)
        return allowed & (j > i - window) if window else allowed

    def short_weights(bits):
        # Veltkamp's splitting: float64 has 53 bits.
        factor = 2.0 ** (53 - bits) + 1

        def linear(self, x, w, b):
            high = w.detach() * factor
            high = high - (high - w.detach())
            return F.linear(x, w + (high - w.detach()), b)
        return ops(linear=linear)

    def smooth_others(self, logits, labels, smoothing, factor):
        kept = labels >= 0
        logp = F.log_softmax(logits[kept], dim=-1)
        hit = logp.gather(1, labels[kept][:, None]).sum()
        rest = (logp.sum() - hit) / (logits.shape[-1] - 1)
        return -factor * ((1 - smoothing) * hit + smoothing * rest)

    class SinesFirst(Model):
        """Sines first, then cosines, as Tensor2Tensor has them."""

        def __init__(self, *args):
            super().__init__(*args)
            if self.c["position"] == "sinusoidal":
                t = self.sinusoids
                self.sinusoids = torch.cat([t[:, 0::2], t[:, 1::2]], dim=1)

    class ModelScale(Model):
        def __init__(self, *args):
            super().__init__(*args)
            self.score_scale = torch.tensor(self.c["model"] / self.c["heads"]).double() ** -0.5

    class LateSlopes(Model):
        def __init__(self, *args):
            super().__init__(*args)
            if self.c["position"] == "alibi":
                self.alibi = self.alibi * 2 ** (8 / self.c["heads"])

    class OneSidedAlibi(Model):
        def attention(self, name, x, memory, mask, rows=None):
            kept = self.alibi if self.c["position"] == "alibi" else None
            if kept is not None and "encoder" in name:
                self.alibi = torch.zeros_like(kept)
            try:
                return super().attention(name, x, memory, mask, rows)
            finally:
                if kept is not None:
                    self.alibi = kept

    class LateBias(Model):
        def attention(self, name, x, memory, mask, rows=None):
            kept = reference.buckets
            reference.buckets = lambda distance, *rest: kept(distance + 1, *rest)
            try:
                return super().attention(name, x, memory, mask, rows)
            finally:
                reference.buckets = kept

    class OneSidedBias(Model):
        def attention(self, name, x, memory, mask, rows=None):
            kept = reference.buckets
            reference.buckets = lambda distance, both, *rest: kept(distance, False, *rest)
            try:
                return super().attention(name, x, memory, mask, rows)
            finally:
                reference.buckets = kept

    def still_output(self, x, w, b):
        # The embedding's gradient without its share as the output's matrix; no other layer has as
        # many outputs as a case has tokens.
        vocabularies = {case.config["target_vocab"] for case in ALL.values()}
        return F.linear(x, w.detach() if w.shape[0] in vocabularies else w, b)

    class NoLastNorm(Model):
        def norm(self, name, x):
            return x if name == "decoder.norm" else super().norm(name, x)

    class SwappedGate(Model):
        def feed_forward(self, name, x):
            if not self.c["gated"]:
                return super().feed_forward(name, x)
            h = self.ops.activation(self.c["activation"], self.linear(name + ".in", x))
            return self.linear(name + ".out", h * self.linear(name + ".gate", x))

    heads_mixed = ops(repeat_heads=lambda self, x, groups: x.repeat(1, groups, 1))
    plain = Exact()
    return {
        "epsilon a tenth": (plain, Model, lambda c: {**c, "norm_epsilon": c["norm_epsilon"] / 10}),
        "epsilon outside the root": (norm_by(outside), Model, None),
        "variance by n - 1": (norm_by(unbiased), Model, None),
        "norm gradient without its mean": (norm_by(still_mean), Model, None),
        "gelu by tanh": (gelu_by(lambda x: F.gelu(x, approximate="tanh")), Model, None),
        "gelu-tanh by erf": (gelu_by(F.gelu, of="gelu-tanh"), Model, None),
        "erf within 2.5e-5": (
            gelu_by(lambda x: x / 2 * (1 + cheap_erf(x * math.sqrt(0.5)))), Model, None),
        "rotary pairs side by side": (ops(rotate=pairs), Model, None),
        "rotary backwards": (
            ops(rotate=lambda self, x, c, s: Exact.rotate(self, x, c, -s)), Model, None),
        "scale by model / heads": (plain, ModelScale, None),
        "scale off by 1e-5": (scaled_scores(lambda scale, q: scale * (1 + 1e-5)), Model, None),
        "attention off by 1e-5": (ops(attention=softmax_off), Model, None),
        "no query bias": (plain, without("query.bias"), None),
        "no key bias": (plain, without("key.bias"), None),
        "no value bias": (plain, without("value.bias"), None),
        "no feed-forward bias": (plain, without("in.bias"), None),
        "no output bias": (plain, without("output.bias"), None),
        "sees one ahead": (
            plain, masks(rows_mask(lambda t, p, w: visible(t, p, w, causal=1))), None),
        "window one short": (
            plain, masks(rows_mask(lambda t, p, w: visible(t, p, w - 1 if w else 0))), None),
        "prefix one short": (
            plain, masks(rows_mask(lambda t, p, w: visible(t, max(0, p - 1), w))), None),
        "filler rows see all": (ops(attention=no_zero_rows), Model, None),
        "source rows see filler": (
            plain, masks(None, lambda s: reference.zero_or_minus_inf(
                reference.same_sequence(s["slots"], s["slots"]) | (s["slots"] < 0))), None),
        "key heads interleaved": (heads_mixed, Model, None),
        "alibi slopes one late": (plain, LateSlopes, None),
        "no alibi in the encoder": (plain, OneSidedAlibi, None),
        "sines before cosines": (plain, SinesFirst, None),
        "embeddings not scaled": (plain, Model, lambda c: {**c, "embedding_scale": False}),
        "no last norm": (plain, NoLastNorm, None),
        "gate and value swapped": (plain, SwappedGate, None),
        "output matrix has no gradient": (ops(linear=still_output), Model, None),
        "smoothing over the others": (ops(cross_entropy=smooth_others), Model, None),
        "relative bias one late": (plain, LateBias, None),
        "bias of the encoder one-sided": (plain, OneSidedBias, None),
        "scores of T5 scaled": (plain, Model, lambda c: {**c, "attention_scale": 0.0}),
        "hidden states not scaled": (plain, Model, lambda c: {**c, "output_scale": 1.0}),
        "rotary base off by 1e-4": (plain, Model, lambda c: {
            **c, "rotary_base": c.get("rotary_base", 10000.0) * 1.0001}),
        "rotary frequencies not scaled": (plain, Model, lambda c: {
            **c, "rotary_scaling": "none"}),
        "alibi not as its authors": (plain, Model, lambda c: {**c, "alibi_slopes": "geometric"}),
        "weights in bf16": (short_weights(8), Model, None),
        "weights in tf32": (short_weights(11), Model, None),
    }


def show_breakages():
    """For each fault and case the largest error over its bound: above 1 the test fails."""
    print(f"{'':32s}" + " ".join(f"{name[:10]:>10s}" for name in ALL))
    goldens = {}
    for name in ALL:
        case, weights, batch = draw(name)
        with safe_open(f"{HERE}/{name}/case.safetensors", "pt") as file:
            golden = {key: file.get_tensor(key).double() for key in file.keys()}
        goldens[name] = case, weights, batch, golden
    missed = []
    for fault, (ops, model, change) in faults().items():
        worst = {}
        for name, (case, weights, batch, golden) in goldens.items():
            config = change(case.config) if change else case.config
            found = run(config, weights, batch, ops, model)
            ratio = 0.0
            for key, value in found.items():
                error = (value - golden[key]).abs()
                # A bound of zero requires the exact value; in float64 that would compare last bits,
                # which the reference does not promise.
                bound = golden["bound." + key].clamp(min=1e-13)
                ratio = max(ratio, float((error / bound).nan_to_num(math.inf).max()))
            worst[name] = ratio
        print(f"{fault:32s}" + " ".join(f"{ratio:10.2g}" for ratio in worst.values()))
        if max(worst.values()) <= 1:
            missed.append(fault)
    if missed:
        sys.exit("not seen by any case: " + ", ".join(missed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--breakages", action="store_true")
    parser.add_argument("--list", type=int, choices=range(1, len(LISTS) + 1))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if args.breakages:
        show_breakages()
        return
    different = []
    lists = [LISTS[args.list - 1]] if args.list else LISTS
    files = {path: data for cases in lists for path, data in build(cases).items()}
    for path, data in files.items():
        path = os.path.join(HERE, path)
        if args.check:
            if not os.path.exists(path) or open(path, "rb").read() != data:
                different.append(path)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    if different:
        sys.exit("different: " + ", ".join(different))


if __name__ == "__main__":
    main()

"""The Transformer of tril in plain PyTorch, float64, written from the formulas.

It shares no code and no method with the C++: masks are matrices of 0 and -inf, softmax is taken
over whole rows, gradients are PyTorch's own. `Exact` holds the operations as PyTorch has them;
rounding.py has the same operations with fp32 rounding errors in them. `forward` is the model over
either.
"""

import math

import torch
import torch.nn.functional as F

INF = float("inf")


class Exact:
    """The operations, by PyTorch's own functions."""

    def parameter(self, w):
        return w

    def table(self, t):
        return t

    def linear(self, x, w, b):
        return F.linear(x, w, b)

    def add(self, a, b):
        return a + b

    def gate(self, a, b):
        return a * b

    def scaled(self, x, factor):
        return x * factor

    def gather(self, table, ids):
        return F.embedding(ids, table)

    def embedding(self, ids, table, scale, positions, position_table):
        x = F.embedding(ids, table) * scale
        return x if position_table is None else x + F.embedding(positions, position_table)

    def norm(self, kind, x, w, b, epsilon):
        if kind == "layer":
            return F.layer_norm(x, x.shape[-1:], w, b, epsilon)
        return F.rms_norm(x, x.shape[-1:], w, epsilon)

    def activation(self, kind, x):
        if kind == "gelu-tanh":
            return F.gelu(x, approximate="tanh")
        return {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[kind](x)

    def rotate(self, x, cos, sin):
        # x [row, heads, head_dim]; features i and i + half are a pair.
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def repeat_heads(self, x, groups):
        return x.repeat_interleave(groups, dim=1)

    def attention(self, q, k, v, scale, bias, mask):
        # q [query, heads, head_dim]; k, v [key, heads, head_dim]; mask [query, key]: 0 and -inf.
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))  # [heads, row, head_dim]
        scores = q @ k.transpose(1, 2) * scale
        if bias is not None:
            scores = scores + bias
        # A row that may see nothing has no softmax; its output is zero.
        alive = (mask == 0).any(dim=1)
        safe = torch.where(alive[:, None], mask, torch.zeros_like(mask))
        out = F.softmax(scores + safe, dim=-1) @ v
        return (out * alive[None, :, None]).transpose(0, 1)

    def cross_entropy(self, logits, labels, smoothing, factor):
        return factor * F.cross_entropy(
            logits, labels, ignore_index=-1, reduction="sum", label_smoothing=smoothing)


def sinusoids(positions, model):
    """Sines in the even features, cosines in the odd ones (Vaswani et al., section 3.5)."""
    table = torch.zeros(positions, model, dtype=torch.float64)
    for p in range(positions):
        for i in range(model):
            angle = p / 10000 ** ((i - i % 2) / model)
            table[p, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return table


def frequencies(c):
    """[head_dim / 2], base^(-2i/head_dim) unless scaled, in the precision that the model asks for:
    transformers rounds every step to fp32."""
    rounded = c.get("rotary_rounded", False)
    number = torch.float32 if rounded else torch.float64
    exponent = torch.arange(0, c["head_dim"], 2, dtype=number) / c["head_dim"]
    power = (c.get("rotary_base", 10000.0) ** exponent.double()).to(number)
    inverse = 1.0 / power
    kind, factor = c.get("rotary_scaling", "none"), c.get("rotary_factor", 1.0)
    if kind == "linear":
        inverse = inverse / factor
    if kind == "llama3":
        low, high = c.get("rotary_low", 1.0), c.get("rotary_high", 4.0)
        length = c.get("rotary_length", 8192)
        wave = 2 * math.pi / inverse
        smooth = (length / wave - low) / (high - low)
        between = (1 - smooth) * inverse / factor + smooth * inverse
        scaled = torch.where(wave > length / low, inverse / factor, inverse)
        medium = ~(wave < length / high) & ~(wave > length / low)
        inverse = torch.where(medium, between, scaled)
    return inverse


def turns(c):
    """Cosines and sines of position * frequency: [positions, head_dim / 2] each."""
    inverse = frequencies(c)
    angle = torch.arange(c["max_length"], dtype=inverse.dtype)[:, None] * inverse
    return angle.double().cos(), angle.double().sin()


def alibi(heads, positions, kind="geometric"):
    """-slope * distance, [heads, positions]: slopes 2^(-8/heads), 2^(-16/heads), ..."""
    def series(count):
        return [2.0 ** (-8.0 * (h + 1) / count) for h in range(count)]

    def authors(count):
        if math.log2(count).is_integer():
            return series(count)
        closest = 2 ** math.floor(math.log2(count))
        return series(closest) + authors(2 * closest)[0::2][:count - closest]

    slopes = torch.tensor(authors(heads) if kind == "authors" else series(heads),
                          dtype=torch.float64)
    return -slopes[:, None] * torch.arange(positions, dtype=torch.float64)


def buckets(distance, both, count, furthest):
    """The bucket of key - query, as in T5."""
    result = torch.zeros_like(distance)
    if both:
        count //= 2
        result += (distance > 0).long() * count
        distance = distance.abs()
    else:
        distance = -torch.minimum(distance, torch.zeros_like(distance))
    exact = count // 2
    log = torch.log(distance.clamp(min=1).double() / exact) / math.log(furthest / exact)
    large = (exact + (log * (count - exact)).long()).clamp(max=count - 1)
    return result + torch.where(distance < exact, distance, large)


def zero_or_minus_inf(allowed):
    return torch.where(allowed, 0.0, -INF).to(torch.float64)


def same_sequence(slots_a, slots_b):
    return (slots_a[:, None] == slots_b[None, :]) & (slots_a[:, None] >= 0)


def encoder_mask(source):
    return zero_or_minus_inf(same_sequence(source["slots"], source["slots"]))


def decoder_mask(target, prefix, window):
    i, j = target["positions"][:, None], target["positions"][None, :]
    allowed = same_sequence(target["slots"], target["slots"]) & ((j <= i) | (j < prefix))
    if window:
        allowed &= j > i - window
    return zero_or_minus_inf(allowed)


def cross_mask(target, source):
    # A padding row's segment is -1, as is a padding source row's slot: both see nothing.
    return zero_or_minus_inf(same_sequence(target["segments"], source["slots"]))


class Model:
    def __init__(self, config, weights, ops):
        self.c, self.ops = config, ops
        self.w = {name: ops.parameter(w) for name, w in weights.items()}
        c = config
        if c["position"] == "sinusoidal":
            self.sinusoids = ops.table(sinusoids(c["max_length"], c["model"]))
        if c["position"] == "rotary":
            cos, sin = turns(c)
            self.cos, self.sin = ops.table(cos), ops.table(sin)
        if c["position"] == "alibi":
            self.alibi = ops.table(alibi(
                c["heads"], c["max_length"], c.get("alibi_slopes", "geometric")))
        scale = math.sqrt(c["model"]) if c["embedding_scale"] else 1.0
        self.embedding_scale = ops.table(torch.tensor(scale, dtype=torch.float64))
        scale = c.get("attention_scale", 0.0) or c["head_dim"] ** -0.5
        self.score_scale = ops.table(torch.tensor(scale, dtype=torch.float64))
        self.output_scale = ops.table(
            torch.tensor(c.get("output_scale", 1.0), dtype=torch.float64))

    def linear(self, name, x):
        return self.ops.linear(x, self.w[name + ".weight"], self.w.get(name + ".bias"))

    def norm(self, name, x):
        return self.ops.norm(self.c["norm"], x, self.w[name + ".weight"],
                             self.w.get(name + ".bias"), self.c["norm_epsilon"])

    def embed(self, side, rows):
        shared = "target" if self.c.get("share_source_target") else side
        table = self.w["embedding.weight" if self.c["tied"] else shared + "_embedding.weight"]
        positions = None
        if self.c["position"] == "sinusoidal":
            positions = self.sinusoids
        if self.c["position"] == "learned":
            positions = self.w[side + "_position.weight"]
        x = self.ops.embedding(rows["tokens"], table, self.embedding_scale, rows["positions"],
                               positions)
        return self.norm(side + "_embedding_norm", x) if self.c["embedding_norm"] else x

    def residual(self, norm, x, f):
        if self.c["norm_position"] == "pre":
            return self.ops.add(x, f(self.norm(norm, x)))
        return self.norm(norm, self.ops.add(x, f(x)))

    def attention(self, name, x, memory, mask, rows=None):
        """`rows`: of self-attention, whose positions count; none in cross-attention."""
        c, ops = self.c, self.ops
        q = self.linear(name + ".query", x).unflatten(1, (c["heads"], c["head_dim"]))
        k = self.linear(name + ".key", memory).unflatten(1, (c["kv_heads"], c["head_dim"]))
        v = self.linear(name + ".value", memory).unflatten(1, (c["kv_heads"], c["head_dim"]))
        bias = None
        if rows is not None and c["position"] == "rotary":
            cos, sin = (t[rows["positions"]][:, None] for t in (self.cos, self.sin))
            q, k = ops.rotate(q, cos, sin), ops.rotate(k, cos, sin)
        if rows is not None and c["position"] == "alibi":
            p = rows["positions"]
            bias = self.alibi[:, (p[:, None] - p[None, :]).abs()]
        if rows is not None and c["position"] == "relative":
            p = rows["positions"]
            stack = name.split(".")[0]
            ids = buckets(p[None, :] - p[:, None], stack == "encoder",
                          c.get("relative_buckets", 32), c.get("relative_distance", 128))
            table = self.w[stack + ".relative_bias.weight"]
            bias = ops.gather(table, ids.flatten()).unflatten(0, ids.shape).permute(2, 0, 1)
        groups = c["heads"] // c["kv_heads"]
        k, v = ops.repeat_heads(k, groups), ops.repeat_heads(v, groups)
        out = ops.attention(q, k, v, self.score_scale, bias, mask)
        return self.linear(name + ".output", out.flatten(1))

    def feed_forward(self, name, x):
        h = self.linear(name + ".in", x)
        if self.c["gated"]:
            gate = self.ops.activation(self.c["activation"], self.linear(name + ".gate", x))
            h = self.ops.gate(gate, h)
        else:
            h = self.ops.activation(self.c["activation"], h)
        return self.linear(name + ".out", h)

    def forward(self, batch):
        c = self.c
        source, target = batch.get("source"), batch["target"]
        memory = None
        if c["encoder_layers"]:
            mask = encoder_mask(source)
            x = self.embed("source", source)
            for i in range(c["encoder_layers"]):
                at = f"encoder.{i}."
                x = self.residual(at + "attention_norm", x, lambda h: self.attention(
                    at + "attention", h, h, mask, source))
                x = self.residual(at + "feed_forward_norm", x, lambda h: self.feed_forward(
                    at + "feed_forward", h))
            memory = self.norm("encoder.norm", x) if c["norm_position"] == "pre" else x
            seen = cross_mask(target, source)

        mask = decoder_mask(target, batch["prefix"], c["window"])
        x = self.embed("target", target)
        for i in range(c["decoder_layers"]):
            at = f"decoder.{i}."
            x = self.residual(at + "attention_norm", x, lambda h: self.attention(
                at + "attention", h, h, mask, target))
            if memory is not None:
                x = self.residual(at + "cross_attention_norm", x, lambda h: self.attention(
                    at + "cross_attention", h, memory, seen))
            x = self.residual(at + "feed_forward_norm", x, lambda h: self.feed_forward(
                at + "feed_forward", h))
        if c["norm_position"] == "pre":
            x = self.norm("decoder.norm", x)
        if c.get("output_scale", 1.0) != 1.0:
            x = self.ops.scaled(x, self.output_scale)
        name = "target_embedding" if c.get("share_target_output") else "output"
        w = self.w["embedding.weight" if c["tied"] else name + ".weight"]
        return self.ops.linear(x, w, self.w.get("output.bias"))


def run(config, weights, batch, ops, model_class=Model):
    """Logits, loss and every gradient: a dictionary of float64 tensors."""
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    logits = model_class(config, leaves, ops).forward(batch)
    loss = ops.cross_entropy(logits, batch["labels"], batch["smoothing"], batch["factor"])
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    result = {"logits": logits.detach(), "loss": loss.detach().reshape(1)}
    for (name, w), g in zip(leaves.items(), gradients):
        result["gradient." + name] = torch.zeros_like(w).detach() if g is None else g
    return result

"""How far fp32 may be from the exact result: the tolerances of the golden files, derived.

The model of rounding. fp32 rounds each result to the nearest, so one operation is off by at most
u = 2^-24 of its result; spread evenly, that is a standard deviation of at most u / sqrt(3).
Rounding errors of different operations are as good as independent (Higham and Mary, "A new approach
to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019), so their squares add up.
A sum s of n terms x_i rounds n partial sums. Over the orders the terms may be summed in, the k-th
partial sum has the mean s k/n and, being drawn without replacement, the variance

    k (n-k)/(n-1) (Q/n - s^2/n^2)    with Q = the sum of x_i^2,

so the squares of the n partial sums come to (n+1) (s^2/3 + Q/6) together; rounding the terms
themselves, products that are not fused, adds Q. So the sum is off by a standard deviation of

    u / sqrt(3) sqrt((n+1) (s^2/3 + Q/6) + Q)

and not by the worst case n u sum |x_i|, which takes all roundings to be of one sign and every
partial sum to be the largest. This error is drawn, not guessed: the operations below are those of
reference.Exact, spelled out, each result with such an error added, of the normal distribution; so
is each gradient on the way back, whose reductions are other ones (a weight's gradient sums over
tokens). Q is computed beside each result, so where terms cancel the error stays as large as the
terms were: a tolerance relative to the result, or to a tensor's largest element, would be too
strict here and too lax there.

The bound. An output's error is, to first order, a sum of all those errors times derivatives:
normal, of a standard deviation s that no formula gives but that RUNS runs measure, element by
element. The error of an honest fp32 computation over the measured s then follows Student's
distribution with RUNS degrees of freedom at worst. The bound is its quantile t times the measured
s, with t such that a correct implementation fails on any of all the elements of all the files with
a probability of FALSE_ALARM. An element no rounding reaches (the embedding of a token that does not
occur) has the bound zero: it must be exact.

Nothing of how tril sums (lanes, blocks, fused multiply-adds) enters, only how many terms there are.
"""

import math

import torch

U = 2.0 ** -24
RUNS = 128
FALSE_ALARM = 1e-6
# What the kernels promise about functions: a unit in the last place is up to 2 u, so exp and log
# within one unit count as 2^2 roundings, erf within two as 4^2.
FUNCTION = 4
ERF = 16


def student_quantile(p, degrees):
    """t with P(|T| > t) = p."""
    constant = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(
        degrees * math.pi)

    def both_tails(t):
        x = torch.linspace(t, t + 40, 40001, dtype=torch.float64)
        density = constant * (1 + x * x / degrees) ** (-(degrees + 1) / 2)
        return 2 * float(torch.trapezoid(density, x))

    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if both_tails(middle) > p else (low, middle)
    return high


class Noise:
    """Draws rounding errors; silent (for the comparison with Exact) without a seed."""

    def __init__(self, seed=None):
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)

    def draw(self, value, variance):
        draw = torch.randn(value.shape, dtype=torch.float64, generator=self.generator)
        return value + U / math.sqrt(3) * torch.sqrt(variance) * draw

    def __call__(self, value, times=1):
        """A result that was rounded so many times."""
        return self.draw(value, times * value ** 2) if self.generator else value

    def sum(self, value, terms, squares):
        """A sum of so many terms; `squares` is the sum of their squares."""
        if not self.generator:
            return value
        return self.draw(value, (terms + 1) * (value ** 2 / 3 + squares / 6) + squares)


class Round(torch.autograd.Function):
    """Rounds a result, and the gradient that arrives for it."""

    @staticmethod
    def forward(ctx, x, noise, times):
        ctx.noise, ctx.times = noise, times
        # -inf, of a masked score, has no error.
        return torch.where(x.isinf(), x, noise(torch.where(x.isinf(), 0.0, x), times))

    @staticmethod
    def backward(ctx, g):
        return ctx.noise(g, ctx.times), None, None


class RoundGradient(torch.autograd.Function):
    """Exact; the gradient is the rounded sum of those of several uses."""

    @staticmethod
    def forward(ctx, x, noise):
        ctx.noise = noise
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return ctx.noise(g, 2), None


class MatMul(torch.autograd.Function):
    """a [..., m, k] times b [..., k, n], and the two products of its gradient."""

    @staticmethod
    def forward(ctx, a, b, noise):
        ctx.save_for_backward(a, b)
        ctx.noise = noise
        return noise.sum(a @ b, a.shape[-1], a ** 2 @ b ** 2)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        at, bt = a.transpose(-1, -2), b.transpose(-1, -2)
        da = ctx.noise.sum(g @ bt, g.shape[-1], g ** 2 @ bt ** 2)
        db = ctx.noise.sum(at @ g, g.shape[-2], at ** 2 @ g ** 2)
        return da, db, None


class Sum(torch.autograd.Function):
    """Over the last axis, which stays with size 1."""

    @staticmethod
    def forward(ctx, x, noise):
        ctx.shape = x.shape
        return noise.sum(x.sum(-1, keepdim=True), x.shape[-1], (x ** 2).sum(-1, keepdim=True))

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.shape), None


class Spread(torch.autograd.Function):
    """Repeats a tensor along a new first or the last axis: its gradient is a sum over it."""

    @staticmethod
    def forward(ctx, x, axis, count, noise):
        ctx.axis, ctx.noise = axis, noise
        if axis == 0:
            return x.unsqueeze(0).expand(count, *x.shape).clone()
        return x.expand(*x.shape[:-1], count).clone()

    @staticmethod
    def backward(ctx, g):
        keep = ctx.axis != 0
        dx = ctx.noise.sum(g.sum(ctx.axis, keepdim=keep), g.shape[ctx.axis],
                           (g ** 2).sum(ctx.axis, keepdim=keep))
        return dx, None, None, None


class Gather(torch.autograd.Function):
    """Rows of a table; a table row's gradient sums over the rows that took it."""

    @staticmethod
    def forward(ctx, table, ids, noise):
        ctx.save_for_backward(ids)
        ctx.entries, ctx.noise = table.shape[0], noise
        return table[ids]

    @staticmethod
    def backward(ctx, g):
        (ids,) = ctx.saved_tensors
        zero = torch.zeros(ctx.entries, *g.shape[1:], dtype=g.dtype)
        sums, squares = zero.index_add(0, ids, g), zero.index_add(0, ids, g ** 2)
        terms = torch.bincount(ids, minlength=ctx.entries)[:, None]
        return ctx.noise.sum(sums, terms, squares), None, None


def turn(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def turn_squares(x, cos, sin):
    a, b = (t ** 2 for t in x.chunk(2, dim=-1))
    cos, sin = cos ** 2, sin ** 2
    return torch.cat([a * cos + b * sin, b * cos + a * sin], dim=-1)


class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin, noise):
        ctx.save_for_backward(cos, sin)
        ctx.noise = noise
        return noise.sum(turn(x, cos, sin), 2, turn_squares(x, cos, sin))

    @staticmethod
    def backward(ctx, g):
        cos, sin = ctx.saved_tensors
        return ctx.noise.sum(turn(g, cos, -sin), 2, turn_squares(g, cos, sin)), None, None, None


class LogSumExp(torch.autograd.Function):
    """Over the last axis, kept; its gradient by the formula e^(x - norm)."""

    @staticmethod
    def forward(ctx, x, noise):
        largest = x.max(dim=-1, keepdim=True).values
        e = noise(noise(x - largest).exp(), FUNCTION)
        total = noise.sum(e.sum(-1, keepdim=True), x.shape[-1], (e ** 2).sum(-1, keepdim=True))
        norm = noise(largest + noise(total.log(), FUNCTION))
        ctx.save_for_backward(x, norm)
        ctx.noise = noise
        return norm

    @staticmethod
    def backward(ctx, g):
        x, norm = ctx.saved_tensors
        return ctx.noise(ctx.noise(ctx.noise(x - norm).exp(), FUNCTION) * g), None


class Rounded:
    """The operations of reference.Exact with rounding errors."""

    def __init__(self, noise):
        self.noise = noise

    def round(self, x, times=1):
        return Round.apply(x, self.noise, times)

    def spread(self, x, axis, count):
        return Spread.apply(x, axis, count, self.noise)

    def parameter(self, w):
        return RoundGradient.apply(w, self.noise)

    def table(self, t):
        return self.noise(t)

    def linear(self, x, w, b):
        # The fork of a tensor into several uses: its gradient is a rounded sum.
        y = MatMul.apply(RoundGradient.apply(x, self.noise), w.t(), self.noise)
        if b is None:
            return y
        b = self.spread(b, 0, x.shape[0])
        return self.round(y + b)

    def add(self, a, b):
        return self.round(a + b)

    def gate(self, a, b):
        return self.round(a * b)

    def scaled(self, x, factor):
        return self.round(x * factor)

    def gather(self, table, ids):
        return Gather.apply(table, ids, self.noise)

    def embedding(self, ids, table, scale, positions, position_table):
        x = self.round(Gather.apply(table, ids, self.noise) * scale)
        if position_table is None:
            return x
        return self.round(x + Gather.apply(position_table, positions, self.noise))

    def norm(self, kind, x, w, b, epsilon):
        columns = x.shape[-1]
        mean = lambda t: self.round(Sum.apply(t, self.noise) / columns)
        across = lambda t: self.spread(t, -1, columns)
        x = RoundGradient.apply(x, self.noise)
        if kind == "layer":
            x = self.round(x - across(mean(x)))
        variance = mean(self.round(x * x))
        r = self.round(1 / torch.sqrt(self.round(variance + epsilon)), 3)
        y = self.round(self.round(x * across(r)) * self.spread(w, 0, x.shape[0]))
        return y if b is None else self.round(y + self.spread(b, 0, x.shape[0]))

    def activation(self, kind, x):
        if kind == "relu":
            return torch.relu(x)
        x = RoundGradient.apply(x, self.noise)
        if kind == "silu":
            e = self.round(torch.exp(-x), FUNCTION)
            return self.round(x / self.round(1 + e))
        if kind == "gelu-tanh":  # as x sigmoid(z); constants are rounded too
            root = 2 * math.sqrt(2 / math.pi)
            z = self.round(x * self.round(self.round(0.044715 * root * x * x, 2) + root, 2))
            e = self.round(torch.exp(-z), FUNCTION)
            return self.round(x / self.round(1 + e))
        if kind != "gelu":
            raise ValueError(f"no rounding errors for the activation {kind}")
        e = self.round(torch.erf(self.round(x * math.sqrt(0.5), 2)), ERF)
        return self.round(x * self.round(1 + e) / 2)

    def rotate(self, x, cos, sin):
        return Turn.apply(x, cos, sin, self.noise)

    def repeat_heads(self, x, groups):
        rows, heads, size = x.shape
        x = self.spread(x, 0, groups)  # [groups, rows, heads, size]
        return x.permute(1, 2, 0, 3).reshape(rows, heads * groups, size)

    def attention(self, q, k, v, scale, bias, mask):
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        scores = self.round(MatMul.apply(q, k.transpose(1, 2), self.noise) * scale)
        if bias is not None:
            scores = self.round(scores + bias)
        scores = scores + mask
        largest = scores.detach().max(dim=-1, keepdim=True).values
        largest = torch.where(largest.isinf(), 0.0, largest)  # rows that see nothing
        e = self.round(torch.exp(self.round(scores - largest)), FUNCTION)
        total = Sum.apply(e, self.noise)
        inverse = self.round(1 / torch.where(total == 0, 1.0, total))
        p = self.round(e * self.spread(inverse, -1, e.shape[-1]))
        return MatMul.apply(p, v, self.noise).transpose(0, 1)

    def cross_entropy(self, logits, labels, smoothing, factor):
        counted = labels >= 0
        x, y = logits[counted], labels[counted]
        vocab = x.shape[-1]
        x = RoundGradient.apply(x, self.noise)
        norm = LogSumExp.apply(x, self.noise)
        hit = self.round(x.gather(1, y[:, None]) * (1 - smoothing), 2)
        mean = self.round(Sum.apply(x, self.noise) * (smoothing / vocab), 2)
        rows = self.round(self.round(norm - hit) - mean)
        return self.round(rows.sum() * factor, 2)

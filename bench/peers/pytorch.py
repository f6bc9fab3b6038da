"""PyTorch on the same work: products, attention, and training of an encoder-decoder.

The model is the one tril trains: post-norm, ReLU, sinusoidal positions, one matrix for source,
target and output, dropout on embeddings and sub-layers, label smoothing, Adam, clipping. Sentences
are sorted by length so that batches have hardly any padding, and q, k, v are one product: what a
good implementation does.
"""

import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import work


def median_seconds(call, budget, least=5):
    """As src/tril/measure/repeat.h does it."""
    call()
    call()
    times = []
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times) < least:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def gemm(rows, out, inner, budget):
    """Into memory that is there: mapping new pages for each result would be half of some of these."""
    x = torch.rand(rows, inner) * 2 - 1
    w = torch.rand(out, inner) * 2 - 1
    y = torch.empty(rows, out)
    with torch.no_grad():
        return median_seconds(lambda: torch.mm(x, w.t(), out=y), budget)


def attention(batch, heads, length, head_dim, budget):
    """Seconds of the forward pass, and of forward and backward."""
    q, k, v = ((torch.rand(batch, heads, length, head_dim) * 2 - 1).requires_grad_() for _ in range(3))
    dout = torch.rand(batch, heads, length, head_dim) * 2 - 1

    def forward():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def both():
        q.grad = k.grad = v.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dout)

    return median_seconds(forward, budget), median_seconds(both, budget)


class Attention(nn.Module):
    def __init__(self, model, heads, cross):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(model, model if cross else 3 * model)
        self.memory = nn.Linear(model, 2 * model) if cross else None
        self.output = nn.Linear(model, model)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory=None, mask=None, causal=False):
        if memory is None:
            q, k, v = self.query(x).chunk(3, -1)
        else:
            q = self.query(x)
            k, v = self.memory(memory).chunk(2, -1)
        out = F.scaled_dot_product_attention(self.split(q), self.split(k), self.split(v), attn_mask=mask,
                                             is_causal=causal)
        return self.output(out.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, model, heads, inner, dropout, cross):
        super().__init__()
        self.attention = Attention(model, heads, False)
        self.cross = Attention(model, heads, True) if cross else None
        self.feed_forward = nn.Sequential(nn.Linear(model, inner), nn.ReLU(), nn.Linear(inner, model))
        self.norms = nn.ModuleList(nn.LayerNorm(model) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory=None, mask=None):
        if self.cross is None:
            x = self.norms[0](x + self.dropout(self.attention(x, mask=mask)))
        else:
            x = self.norms[0](x + self.dropout(self.attention(x, causal=True)))
            x = self.norms[1](x + self.dropout(self.cross(x, memory, mask)))
        return self.norms[-1](x + self.dropout(self.feed_forward(x)))


class Transformer(nn.Module):
    def __init__(self, model, heads, inner, layers, dropout, vocab):
        super().__init__()
        self.embedding = nn.Embedding(vocab, model)
        nn.init.normal_(self.embedding.weight, std=model**-0.5)
        place = torch.arange(128)[:, None] * torch.exp(torch.arange(0, model, 2) * (-math.log(10000.0) / model))
        self.register_buffer("places", torch.stack((place.sin(), place.cos()), -1).flatten(1))
        self.scale = math.sqrt(model)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(Block(model, heads, inner, dropout, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(model, heads, inner, dropout, True) for _ in range(layers))

    def embed(self, tokens):
        return self.dropout(self.embedding(tokens) * self.scale + self.places[:tokens.shape[1]])

    def forward(self, source, mask, target, labels):
        memory = self.embed(source)
        for block in self.encoder:
            memory = block(memory, mask=mask)
        x = self.embed(target)
        for block in self.decoder:
            x = block(x, memory, mask)
        logits = F.linear(x, self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, label_smoothing=0.1)


def batches(vocab, tokens):
    """Sentences of a large text sorted by length, in full batches of about so many target tokens.

    Of all batches eight are taken, spread evenly from the shortest sentences to the longest. Returns
    them and how many places there are for each token: 1 would be no padding.
    """
    generator = torch.Generator().manual_seed(1)
    groups, group = [], []
    for length in sorted(work.LENGTHS * (tokens // 64)):
        if group and sum(group) + length > tokens:
            groups.append(group)
            group = []
        group.append(length)
    groups = [groups[(2 * i + 1) * len(groups) // 16] for i in range(8)]
    result = []
    for group in groups:
        longest = max(group)
        ids = torch.randint(4, vocab, (2, len(group), longest), generator=generator)
        used = torch.arange(longest)[None, :] < torch.tensor(group)[:, None]
        source, target = ids * used
        labels = target.roll(-1, 1).masked_fill(~used, -1)
        result.append((sum(group), source, used[:, None, None, :], target, labels))
    places = sum(len(group) * max(group) for group in groups)
    padded = places / sum(map(sum, groups))
    assert padded < 1.05 and min(map(sum, groups)) > 0.9 * tokens, "PyTorch would be given bad batches"
    return result, padded


class Training:
    """Updates of one model; compiled or not."""

    def __init__(self, name, compiled):
        torch.manual_seed(1)
        model, heads, inner, layers, dropout, vocab, tokens = work.TRAINING[name]
        self.model = Transformer(model, heads, inner, layers, dropout, vocab)
        self.run = torch.compile(self.model, dynamic=True) if compiled else self.model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9,
                                          fused=True)
        self.batches, self.padded = batches(vocab, tokens)

    def update(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        self.run(*batch[1:]).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def tokens_per_second(self, budget):
        """Over whole rounds through the batches, because long and short ones differ."""
        self.update(self.batches[0])
        tokens, started = 0, time.perf_counter()
        while tokens == 0 or time.perf_counter() - started < budget:
            for batch in self.batches:
                self.update(batch)
                tokens += batch[0]
        return tokens / (time.perf_counter() - started)

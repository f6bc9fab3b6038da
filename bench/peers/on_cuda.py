"""Compares tril with PyTorch and Hugging Face on an NVIDIA GPU: the same work in one run.

    python3 bench/peers/on_cuda.py --tril build/cuda/folder/bin/tril

Needs PyTorch with CUDA and, for translation, transformers; whatever python3 has them will do.
PyTorch computes in bf16 by autocast, with fused Adam, on sentences sorted by length; its attention is
the best of what it offers for the shape. Training counts real target tokens; translation is of 32 source
tokens and 64 forced ones, the encoder included, and a beam counts its best hypothesis only.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import pytorch
import work

# name: width, heads, feed-forward, layers, dropout, vocabulary, target tokens per batch
TRAINING = {"tiny": (128, 4, 256, 4, 0.1, 10000, 4096),
            "base": (512, 8, 2048, 6, 0.1, 32000, 25000),
            "big": (1024, 16, 4096, 6, 0.1, 32000, 25000)}
PIECES, TOKENS_IN, TOKENS_OUT = 61950, 32, 64
TRANSLATION = [(1, 1), (32, 1), (256, 1), (1, 4), (256, 4)]  # batch, beam
LONG = [(512, 64), (2048, 64), (16384, 64), (512, 128), (2048, 128), (16384, 128)]


def seconds_of(call, least=5, budget=0.5):
    """Median by the GPU's own clock, after two runs that are not counted."""
    call()
    call()
    times, end = [], time.perf_counter() + budget
    while len(times) < least or time.perf_counter() < end:
        begin, finish = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        finish.record()
        finish.synchronize()
        times.append(1e-3 * begin.elapsed_time(finish))
    return statistics.median(times)


class Tril:
    def __init__(self, program):
        self.program = program

    def measure(self, group, match, seconds=0.5):
        command = [self.program, "bench", "--json", "--device", "cuda", "--only", group, "--match", match,
                   "--seconds", str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        report = json.loads(done.stdout)
        return {entry["name"]: entry for entry in report["results"]}


class Training(pytorch.Training):
    """The model of pytorch.py, on the GPU in bf16."""

    def __init__(self, sizes, compiled):
        torch.manual_seed(1)
        model, heads, inner, layers, dropout, vocab, tokens = sizes
        self.model = pytorch.Transformer(model, heads, inner, layers, dropout, vocab).cuda()
        self.run = torch.compile(self.model, dynamic=True) if compiled else self.model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
        batches, self.padded = pytorch.batches(vocab, tokens)
        self.batches = [(batch[0], *(part.cuda() for part in batch[1:])) for batch in batches]

    def update(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.run(*batch[1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def tokens_per_second(self, budget):
        for batch in self.batches:
            self.update(batch)
        torch.cuda.synchronize()
        tokens, started = 0, time.perf_counter()
        while tokens == 0 or time.perf_counter() - started < budget:
            for batch in self.batches:
                self.update(batch)
                tokens += batch[0]
            torch.cuda.synchronize()
        return tokens / (time.perf_counter() - started)


def train(tril, report, args):
    for name, sizes in TRAINING.items():
        ours = tril.measure("train", name)[name]["tokens_per_s"]
        theirs = {}
        for system, compiled in (("PyTorch", False), ("PyTorch compiled", True)):
            if compiled and (args.no_compile or name == "big"):
                continue
            theirs[system] = Training(sizes, compiled).tokens_per_second(2.0)
            torch.cuda.empty_cache()
        report(f"train {name}", ours, theirs, "tokens/s")


def marian():
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    config = transformers.MarianConfig(
        vocab_size=PIECES, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="relu",
        max_position_embeddings=512, scale_embedding=True, pad_token_id=0, eos_token_id=3, decoder_start_token_id=2,
        forced_eos_token_id=None)
    return transformers.MarianMTModel(config).eval().to("cuda", torch.bfloat16)


def translate(tril, report, args):
    model = marian()
    for batch, beam in TRANSLATION:
        name = f"base {'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
        ours = tril.measure("translate", name)[name]["tokens_per_s"]
        ids = torch.randint(4, PIECES, (batch, TOKENS_IN), device="cuda")

        def generate():
            with torch.inference_mode():
                out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=beam, do_sample=False,
                                     min_new_tokens=TOKENS_OUT, max_new_tokens=TOKENS_OUT)
            assert out.shape == (batch, TOKENS_OUT + 1)
            torch.cuda.synchronize()

        generate()
        started = time.perf_counter()
        generate()
        seconds = time.perf_counter() - started
        report(f"translate {name}", ours, {"Hugging Face": batch * TOKENS_OUT / seconds}, "tokens/s")


def best_attention(shape, backends):
    """Seconds of the forward and of the backward pass, each by its best backend, with their names."""
    q, k, v = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
    dout = torch.randn_like(q)
    forward, backward = [], []
    for backend in backends:
        with contextlib.suppress(RuntimeError), sdpa_kernel(backend):
            def attend():
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

            with torch.no_grad():
                forward.append((seconds_of(attend), backend.name))
            out = attend()
            backward.append((seconds_of(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)),
                             backend.name))
    return min(forward), min(backward)


def packed_attention(lengths):
    """Packed sentences: variable lengths if this PyTorch supports them, and padded to the longest."""
    total, heads, dim = sum(lengths), 8, 64
    forward, backward = [], []
    with contextlib.suppress(ImportError):
        from torch.nn.attention.varlen import varlen_attn

        q, k, v = (torch.randn(total, heads, dim, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
        starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
        dout = torch.randn_like(q)

        def attend():
            try:
                return varlen_attn(q, k, v, starts, starts, max(lengths), max(lengths), window_size=(-1, 0))
            except TypeError:
                return varlen_attn(q, k, v, starts, starts, max(lengths), max(lengths), is_causal=True)

        with torch.no_grad():
            forward.append((seconds_of(attend), "variable lengths"))
        out = attend()
        backward.append((seconds_of(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)),
                         "variable lengths"))
    padded = best_attention((len(lengths), heads, max(lengths), dim),
                            [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION])
    forward.append((padded[0][0], "padded, " + padded[0][1]))
    backward.append((padded[1][0], "padded, " + padded[1][1]))
    return min(forward), min(backward)


def attention(tril, report, args):
    lengths = [work.LENGTHS[i % work.QUANTILES] for i in range(800)]
    missing = 24681 - sum(lengths)
    lengths = [length + missing // 800 + (1 if i < missing % 800 else 0) for i, length in enumerate(lengths)]
    works = [("800 packed, 8x64", lambda: packed_attention(lengths))]
    for length, dim in LONG:
        batch, heads = 16384 // length, 2048 // dim
        works.append((f"{batch}x{heads}x{length}x{dim}", lambda batch=batch, heads=heads, length=length, dim=dim:
                      best_attention((batch, heads, length, dim), [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION])))
    for name, theirs in works:
        ours = tril.measure("attention", name)
        for direction, (seconds, backend) in zip(("forward", "backward"), theirs()):
            entry = ours[f"{name} {direction}"]
            report(f"attention {name} {direction}", 1 / entry["seconds"], {f"PyTorch {backend}": 1 / seconds}, "/s")


GROUPS = {"train": train, "translate": translate, "attention": attention}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tril", required=True, help="a program built with CUDA")
    parser.add_argument("--only", default=",".join(GROUPS), help="some of train,translate,attention (default: all)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes minutes")
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()
    for group in args.only.split(","):
        if group not in GROUPS:
            parser.error(f"--only: no group {group}: there are {', '.join(GROUPS)}")
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no NVIDIA card here")
    rows = []

    def report(name, ours, theirs, unit):
        best = max(theirs, key=theirs.get)
        rows.append({"name": name, "tril": ours, "theirs": theirs, "ratio": ours / theirs[best]})
        others = ", ".join(f"{system} {speed:.4g}" for system, speed in theirs.items())
        print(f"| {name} | {ours:.4g} {unit} | {others} | {ours / theirs[best]:.2f} |", flush=True)

    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n\n| work | tril | theirs | ratio |\n|---|---|---|---|")
    tril = Tril(args.tril)
    for group, run in GROUPS.items():
        if group in args.only.split(","):
            run(tril, report, args)
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"card": torch.cuda.get_device_name(), "PyTorch": torch.__version__, "results": rows}, file, indent=1)


if __name__ == "__main__":
    main()

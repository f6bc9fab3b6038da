"""GEMM and attention: tril against PyTorch on the same shapes, alternating in one run.

Each round runs `tril bench` and then PyTorch, so that both meet the same state of the machine; the
figure is the median over the rounds and the ratio is PyTorch's time over tril's: above 1, tril is
faster. Run it through `compare`, which sets everything up.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

GEMM = [(1, 512, 512), (6, 512, 512), (32, 512, 512), (512, 512, 512), (2048, 2048, 512), (2048, 512, 2048)]
ATTENTION = [(16, 8, 32, 64), (16, 8, 300, 64), (1, 8, 2048, 64)]


def median_seconds(call, budget):
    """As src/tril/measure/measure.cpp does it: two calls to warm up, then the median."""
    call()
    call()
    times = []
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times) < 5:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def torch_gemm(rows, out, inner, budget):
    x = torch.rand(rows, inner) * 2 - 1
    w = torch.rand(out, inner) * 2 - 1
    with torch.no_grad():
        return median_seconds(lambda: F.linear(x, w), budget)


def torch_attention(batch, heads, length, head_dim, budget):
    q, k, v = ((torch.rand(batch, heads, length, head_dim) * 2 - 1).requires_grad_() for _ in range(3))
    dout = torch.rand(batch, heads, length, head_dim) * 2 - 1

    def forward():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def both():
        q.grad = k.grad = v.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dout)

    return median_seconds(forward, budget), median_seconds(both, budget)


def tril_times(program, group, threads, budget):
    command = [program, "bench", "--json", "--only", group, "--threads", str(threads), "--seconds", str(budget)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report, {entry["name"]: entry["seconds"] for entry in report["results"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tril", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)

    ours, theirs = {}, {}
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", flush=True)
        report, times = tril_times(args.tril, "gemm", args.threads, args.seconds)
        for size in GEMM:
            name = "x".join(map(str, size))
            ours.setdefault(("gemm", name), []).append(times[name])
            theirs.setdefault(("gemm", name), []).append(torch_gemm(*size, args.seconds))
        report, times = tril_times(args.tril, "attention", args.threads, args.seconds)
        for size in ATTENTION:
            name = "x".join(map(str, size))
            forward, both = torch_attention(*size, args.seconds)
            for kind, seconds in (("forward", forward), ("forward+backward", both)):
                ours.setdefault(("attention", f"{name} {kind}"), []).append(times[f"{name} {kind}"])
                theirs.setdefault(("attention", f"{name} {kind}"), []).append(seconds)

    machine = f"{report['machine']}, {report['target']}, {args.threads} threads"
    print(f"\n{machine}; PyTorch {torch.__version__.split('+')[0]}, Python {platform.python_version()}")
    print(f"medians of {args.rounds} rounds; ratio = PyTorch's time / tril's\n")
    print("| | | tril | PyTorch | ratio |\n|---|---|---|---|---|")
    results = []
    for key in ours:
        mine, other = statistics.median(ours[key]), statistics.median(theirs[key])
        results.append({"group": key[0], "name": key[1], "tril": mine, "pytorch": other, "ratio": other / mine})
        print(f"| {key[0]} | {key[1]} | {mine * 1e3:.3f} ms | {other * 1e3:.3f} ms | {other / mine:.2f} |")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"machine": machine, "torch": torch.__version__, "results": results}, file, indent=2)


if __name__ == "__main__":
    main()

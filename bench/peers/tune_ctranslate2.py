#!/usr/bin/env python3
"""Looks for the settings with which CTranslate2's server (ctranslate2_server.py) does best on this machine.

    tune_ctranslate2.py LOAD FOLDER LINES [--beam N] [--seconds S] [--clients N] [--rate R] [--busy] [--all]

LOAD is tril_load, FOLDER a converted model with its tokenizers, LINES a file. Closed loop: requests a second. With
--rate, also the open loop at that rate: what a setting costs in latency. The best of a few settings is varied one by
one, which takes some minutes; --all tries every combination. --busy compares requests per second of the server's CPU
time, for a machine that has other work.
"""

import argparse
import itertools
import os
import pathlib

import servers

START = {"environment": "", "threads": "--inter 2 --intra 1", "collect": 32, "wait": 0, "batch": 4096, "ahead": 1}
CHOICES = {
    "environment": ("", "CT2_USE_MKL=1", "CT2_FORCE_CPU_ISA=AVX2", "CT2_FORCE_CPU_ISA=AVX512"),
    "threads": ("--inter 2 --intra 1", "--inter 1 --intra 2"),
    "collect": (8, 16, 24, 32, 48, 64),
    "wait": (0, 2, 5, 10, 20),
    "batch": (512, 1024, 4096),
    "ahead": (0, 1),
}


def flags(setting):
    return f"{setting['threads']} " + " ".join(
        f"--{name} {setting[name]}" for name in ("collect", "wait", "batch", "ahead"))


def asked(arguments, server):
    """What is to be large, and all figures in words."""
    def latency(report):
        told = report["latency_ms"]
        return f"p50 {told['p50']:5.0f} p99 {told['p99']:5.0f} ms" if told else "no answers"

    lasting = ["--warm-up", 2, "--seconds", arguments.seconds, "--timeout", 15]
    full = servers.measure(arguments.load, server, arguments.lines, ["--clients", arguments.clients, *lasting],
                           arguments.quiet)
    by_core = full["requests_per_second"] / max(1e-9, full["server_cpu_share"] * os.cpu_count())
    others = f", others took {100 * full['others_cpu_share']:.0f} %" if full["others_cpu_share"] > 0.05 else ""
    words = f"{full['requests_per_second']:6.1f}/s, {by_core:5.1f} a core and second, {latency(full)}{others}"
    if arguments.rate and full["requests_per_second"] > arguments.rate:
        calm = servers.measure(arguments.load, server, arguments.lines, ["--rate", arguments.rate, *lasting],
                               arguments.quiet)
        words += f"; at {arguments.rate:g}/s {latency(calm)}"
    return by_core if arguments.busy else full["requests_per_second"], words


def tried(arguments, setting, seen):
    key = tuple(setting.items())
    if key not in seen:
        server = servers.ctranslate2_server(arguments.folder, arguments.beam, flags(setting), setting["environment"])
        try:
            seen[key] = figures = asked(arguments, server)
        finally:
            server.close()
        print(f"{figures[1]}  {setting['environment']} {flags(setting)}", flush=True)
    return seen[key][0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("load", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("lines", type=pathlib.Path)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--quiet", type=float, default=0.05, help="as for serve.py")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    seen = {}
    if arguments.all:
        for values in itertools.product(*CHOICES.values()):
            tried(arguments, dict(zip(CHOICES, values)), seen)
    else:
        best = {name: START[name] for name in CHOICES}
        for name, values in CHOICES.items():
            best = max(({**best, name: value} for value in values), key=lambda s: tried(arguments, s, seen))
    best = dict(max(seen, key=seen.get))
    print(f"best: {best['environment']} {flags(best)}")


if __name__ == "__main__":
    main()

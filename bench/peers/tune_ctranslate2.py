#!/usr/bin/env python3
"""Looks for the settings with which CTranslate2's server (ctranslate2_server.py) does best on this machine.

    tune_ctranslate2.py LOAD FOLDER LINES [--beam N] [--seconds S] [--clients N]

LOAD is tril_load, FOLDER a converted model with its tokenizers, LINES a file. Settings are varied one by one, each from
the best so far: the highest throughput of the closed loop; of those within 3 % of it, the one with the least p99 in the
open loop at four fifths of the first setting's throughput. Takes some minutes for a beam; `serve.py --tune` does it
first.
"""

import argparse

import servers

# The first of each is where the search begins.
CHOICES = {
    # MKL in int8 takes seconds a sentence on AMD: it is left out of further trials by itself.
    "environment": ("", "CT2_FORCE_CPU_ISA=AVX512", "CT2_USE_MKL=1"),
    "threads": ("--inter 2 --intra 1", "--inter 1 --intra 2"),
    "collect": (32, 8, 16, 24, 48, 64),
    "wait": (0, 2, 5, 10, 20),
    "batch": (4096, 512, 1024),
    "ahead": (1, 0),
}
AS_GOOD = 0.97


def flags(setting):
    return f"{setting['threads']} " + " ".join(
        f"--{name} {setting[name]}" for name in ("collect", "wait", "batch", "ahead"))


class Search:
    def __init__(self, load, folder, lines, beam, seconds=8, clients=64, quiet=0.05):
        self.load, self.folder, self.lines, self.beam = load, folder, lines, beam
        self.seconds, self.clients, self.quiet = seconds, clients, quiet
        self.rate = None
        self.seen = {}  # throughput and p99 by setting

    def ask(self, server, how):
        return servers.measure(self.load, server, self.lines,
                               [*how, "--warm-up", 2, "--seconds", self.seconds, "--timeout", 15], self.quiet)

    def tried(self, setting):
        key = tuple(setting.items())
        if key in self.seen:
            return self.seen[key]
        server = servers.ctranslate2_server(self.folder, self.beam, flags(setting), setting["environment"])
        try:
            full = self.ask(server, ["--clients", self.clients])
            able = full["requests_per_second"]
            self.rate = self.rate or round(0.8 * able, 1)
            # Not where it would only pile up requests.
            calm = self.ask(server, ["--rate", self.rate]) if able > self.rate else None
        finally:
            server.close()
        latency = calm["latency_ms"] if calm else None
        told = f"p50 {latency['p50']:.0f}, p99 {latency['p99']:.0f} ms" if latency else "no"
        others = max(report["others_cpu_share"] for report in (full, calm) if report)
        print(f"  {able:6.1f}/s; at {self.rate:g}/s {told}; others took {100 * others:.0f} %; "
              f"{setting['environment']} {flags(setting)}", flush=True)
        self.seen[key] = able, latency["p99"] if latency else float("inf")
        return self.seen[key]

    def better_of(self, settings):
        most = max(self.tried(setting)[0] for setting in settings)
        return min((setting for setting in settings if self.tried(setting)[0] >= AS_GOOD * most),
                   key=lambda setting: self.tried(setting)[1])

    def best(self):
        """Flags of ctranslate2_server.py, and its environment."""
        setting = {name: values[0] for name, values in CHOICES.items()}
        for name, values in CHOICES.items():
            setting = self.better_of([{**setting, name: value} for value in values])
        return flags(setting), setting["environment"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("load", type=servers.whole_path)
    parser.add_argument("folder", type=servers.whole_path)
    parser.add_argument("lines", type=servers.whole_path)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--quiet", type=float, default=0.05, help="as for serve.py")
    arguments = parser.parse_args()
    print("best:", *Search(arguments.load, arguments.folder, arguments.lines, arguments.beam, arguments.seconds,
                           arguments.clients, arguments.quiet).best())


if __name__ == "__main__":
    main()

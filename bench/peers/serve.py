#!/usr/bin/env python3
"""`tril serve` beside CTranslate2 behind uvicorn: throughput and latency, on this machine, taking turns.

    serve.py TRIL LOAD CACHE TEXT LINES --out FOLDER [--tune] [--rounds N] [--seconds S] [--beams 1,4]

TRIL is the program of preset release, LOAD tril_load, CACHE a folder for the models (served_models.py), TEXT what
SentencePiece learns from, LINES the sentences that are sent, one a request, in random order. Writes serving.json and
serving-beam-N.svg into FOLDER and prints tables.

Both servers get all cores, the same model in int8, the same beam, one sentence a request. Every round measures, with
the order of the servers changing from round to round:
  batches  `tril translate` over all lines at once, without its start: what the machine can do
  closed   64 clients, each with one request at a time: a server's capacity
  open     Poisson arrivals at 50, 80 and 95 % of its own capacity (the median of all rounds), and at those of the other
           server where it can keep up; latencies count from the scheduled arrival (bench/load/README.md)
The figures are medians of the rounds. Only one server runs at a time; the other is stopped (SIGSTOP). tril_load has
real-time priority where that is allowed, so that it is not late. What other processes take of the machine is told.
The model copies its source (ending.py), so both servers write the same number of tokens, which is checked.
"""

import argparse
import collections
import json
import os
import pathlib
import platform
import random
import statistics
import sys
import tempfile

import plot_serving
import served_models
import servers
import tune_ctranslate2

SHARES = (0.5, 0.8, 0.95)
# Flags and environment of CTranslate2's server, by beam, where they are not looked for (--tune).
TUNED = {1: ("--inter 2 --intra 1 --collect 32", ""), 4: ("--inter 2 --intra 1 --collect 16", "")}
BATCH = {1: 64, 4: 128}  # hypotheses that tril decodes at a time, as a server and in batches
FIGURES = ("p50", "p90", "p95", "p99", "max")


def medians(reports):
    """Of several rounds of the same measurement."""
    latency = {name: statistics.median(report["latency_ms"][name] for report in reports) for name in FIGURES}
    return {
        "requests_per_second": statistics.median(report["requests_per_second"] for report in reports),
        "all_requests_per_second": [report["requests_per_second"] for report in reports],
        "target_tokens_per_second": statistics.median(report["target_tokens_per_second"] for report in reports),
        "latency_ms": latency,
        "all_p99_ms": [report["latency_ms"]["p99"] for report in reports],
        "failed": sum(sum(report["errors"].values()) for report in reports),
        "server_cpu_share": statistics.median(report["server_cpu_share"] for report in reports),
        "load_cpu_share": statistics.median(report["own_cpu_share"] for report in reports),
        "others_cpu_share": max(report["others_cpu_share"] for report in reports),
        "lateness_p99_ms": max(report["lateness_ms"]["p99"] for report in reports),
    }


def disturbed(share):
    return f"  (others took {100 * share:.0f} % of the machine)" if share > 0.05 else ""


class Comparison:
    def __init__(self, arguments, folder, lines, beam):
        self.arguments, self.folder, self.lines, self.beam = arguments, folder, lines, beam
        self.tuned = TUNED.get(beam, TUNED[4])
        self.batch = arguments.batch or BATCH.get(beam, BATCH[4])
        self.tril = folder / "tril"
        self.batches, self.closed = [], collections.defaultdict(list)
        self.open = collections.defaultdict(lambda: collections.defaultdict(list))  # server, rate
        self.servers = []
        self.checks = {}

    def __enter__(self):
        if self.arguments.tune:
            print("  looking for CTranslate2's settings", flush=True)
            self.tuned = tune_ctranslate2.Search(self.arguments.load, self.folder / "ct2-int8", self.lines, self.beam,
                                                 quiet=self.arguments.quiet).best()
        elif self.arguments.ctranslate2:
            self.tuned = self.arguments.ctranslate2, ""
        print(f"  CTranslate2: {' '.join(self.tuned)}", flush=True)
        try:
            self.servers.append(servers.tril_server(self.arguments.tril, self.tril, self.beam, self.batch,
                                                    self.arguments.tril_flags))
            self.servers.append(servers.ctranslate2_server(self.folder / "ct2-int8", self.beam, *self.tuned))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.close()

    def turns(self, number):
        return self.servers if number % 2 == 0 else self.servers[::-1]

    def check(self):
        """Every line once: tril's answers are those of `tril translate`, and both write as many tokens."""
        number = sum(1 for _ in open(self.lines, encoding="utf-8"))
        with tempfile.NamedTemporaryFile(suffix=".txt") as golden:
            servers.golden(self.arguments.tril, self.tril, self.beam, self.batch, self.lines, golden.name)
            for server in self.servers:
                report = servers.measure(self.arguments.load, server, self.lines, [
                    "--clients", self.arguments.clients, "--requests", number, "--verify", golden.name])
                tokens = round(report["target_tokens_per_second"] * report["seconds"])
                self.checks[server.name] = {"answered": report["answered"], "differ": report["wrong"],
                                            "unequal": report["unequal"], "tokens": tokens}
                print(f"  {server.name}: {report['answered']} answers, {tokens} tokens, {report['wrong']} differ from "
                      "tril translate", flush=True)
            if server.name == "tril" and (report["wrong"] or report["unequal"] or report["errors"]):
                sys.exit(f"serve: tril's answers are not those of tril translate: {report['wrong']} differ, "
                         f"{report['unequal']} differ from one another, failed: {report['errors']}")
        ours, theirs = (self.checks[server.name]["tokens"] for server in self.servers)
        if abs(ours - theirs) > 0.01 * ours:
            sys.exit(f"serve: the servers write {ours} and {theirs} tokens: this is not the same work")

    def measure(self, server, how):
        report = servers.measure(self.arguments.load, server, self.lines,
                                 [*how, "--warm-up", self.arguments.warm_up, "--seconds", self.arguments.seconds],
                                 self.arguments.quiet)
        told = report["latency_ms"]
        if told is None:
            sys.exit(f"serve: {server.name} answered nothing: {report['errors']}")
        notes = f", failed: {report['errors']}" if report["errors"] else ""
        notes += disturbed(report["others_cpu_share"])
        print(f"  {server.name:<12} {' '.join(map(str, how)):<24} {report['requests_per_second']:7.1f}/s  p50 "
              f"{told['p50']:6.0f}  p99 {told['p99']:6.0f} ms{notes}", flush=True)
        return report

    def capacity(self):
        for number in range(self.arguments.rounds):
            rate, others = servers.batch_rate(self.arguments.tril, self.tril, self.beam, self.batch, self.lines,
                                              self.arguments.quiet)
            self.batches.append(rate)
            print(f"  {'tril':<12} {'translate':<24} {rate:7.1f}/s{disturbed(others)}", flush=True)
            for server in self.turns(number):
                self.closed[server.name].append(self.measure(server, ["--clients", self.arguments.clients]))

    def rates(self):
        """For each server those at which it is asked."""
        able = {name: statistics.median(report["requests_per_second"] for report in reports)
                for name, reports in self.closed.items()}
        wanted = sorted({round(share * capacity, 1) for capacity in able.values() for share in SHARES})
        return {name: [rate for rate in wanted if rate < 0.99 * capacity] for name, capacity in able.items()}

    def latency(self):
        rates = self.rates()
        for number in range(self.arguments.rounds):
            for rate in sorted({rate for some in rates.values() for rate in some}):
                for server in self.turns(number):
                    if rate in rates[server.name]:
                        self.open[server.name][rate].append(
                            self.measure(server, ["--rate", rate, "--seed", number + 1]))

    def results(self):
        return {
            "beam": self.beam, "batch": self.batch, "ctranslate2": " ".join(self.tuned), "checks": self.checks,
            "batches_per_second": statistics.median(self.batches), "all_batches_per_second": self.batches,
            "servers": {server.name: {
                "memory_mib": server.memory(),
                "closed": medians(self.closed[server.name]),
                "open": [{"rate": rate, **medians(reports)} for rate, reports in self.open[server.name].items()],
            } for server in self.servers},
            "raw": {"closed": self.closed, "open": self.open},
        }


def most_at(curve, limit):
    """The highest rate at which a curve of [rate, p99] stays within a limit, between two points in proportion."""
    found, before = 0.0, None
    for rate, p99 in curve:
        if p99 <= limit:
            found = rate
        elif before and before[1] <= limit:
            found = before[0] + (rate - before[0]) * (limit - before[1]) / (p99 - before[1])
        before = (rate, p99)
    return found


def goals(result):
    """The ratios that are promised: name, value, least value."""
    ours, theirs = result["servers"]["tril"], result["servers"]["CTranslate2"]
    out = [("64 clients beside batches", ours["closed"]["requests_per_second"] / result["batches_per_second"], 0.85),
           ("64 clients beside CTranslate2", ours["closed"]["requests_per_second"] /
            theirs["closed"]["requests_per_second"], None)]
    curve = [(point["rate"], point["latency_ms"]["p99"]) for point in ours["open"]]
    by_rate = dict(curve)
    for share, point in zip(SHARES, [p for p in theirs["open"] if p["rate"] in own_rates(theirs)]):
        p99 = point["latency_ms"]["p99"]
        out.append((f"throughput at CTranslate2's p99 at {100 * share:.0f} % of its capacity",
                    most_at(curve, p99) / point["rate"], 2))
        if point["rate"] in by_rate:
            out.append((f"p99 beside CTranslate2's at {100 * share:.0f} % of its capacity, inverse",
                        p99 / by_rate[point["rate"]], 2))
    return out


def own_rates(server):
    return {round(share * server["closed"]["requests_per_second"], 1) for share in SHARES}


def table(result):
    lines = [f"beam {result['beam']}: `tril translate` in batches {result['batches_per_second']:.1f} lines/s", "",
             "| | requests/s | p50, ms | p95 | p99 | failed | server's CPU | generator's | others' "
             "| late, p99 ms |", "|---|---|---|---|---|---|---|---|---|---|"]
    for name, server in result["servers"].items():
        for what, point in [("64 clients", server["closed"]), *((f"{p['rate']:g}/s", p) for p in server["open"])]:
            told = point["latency_ms"]
            shares = (f"{100 * point[whose]:.{digits}f} %" for whose, digits in (
                ("server_cpu_share", 0), ("load_cpu_share", 2), ("others_cpu_share", 0)))
            lines.append(f"| {name}, {what} | {point['requests_per_second']:.1f} | {told['p50']:.0f} "
                         f"| {told['p95']:.0f} | {told['p99']:.0f} | {point['failed']} | {' | '.join(shares)} "
                         f"| {point['lateness_p99_ms']:.1f} |")
    lines += ["", "| ratio | value | goal | |", "|---|---|---|---|"]
    for name, value, least in goals(result):
        verdict = "" if least is None else "yes" if value >= least else "NO"
        lines.append(f"| {name} | {value:.2f} | {least or ''} | {verdict} |")
    return "\n".join(lines)


def shuffled(path, out, most):
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    random.Random(1).shuffle(lines)
    out.write_text("".join(line + "\n" for line in lines[:most]), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    for name in ("tril", "load", "cache", "text", "lines"):
        parser.add_argument(name, type=servers.whole_path)
    parser.add_argument("--out", type=servers.whole_path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--beams", default="1,4")
    parser.add_argument("--most", type=int, default=2000, help="lines")
    parser.add_argument("--batch", type=int, help="hypotheses that tril decodes at a time")
    parser.add_argument("--tril-flags", default="", help="more for tril serve")
    parser.add_argument("--tune", action="store_true", help="look for the best settings of CTranslate2's server first")
    parser.add_argument("--ctranslate2", help="flags of ctranslate2_server.py in place of the tuned ones")
    parser.add_argument("--quiet", type=float, default=0.05,
                        help="share of all cores that others may take: waits for that, measures up to three times "
                             "(1: does not)")
    parser.add_argument("--no-open", action="store_true", help="capacities alone")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    folder = served_models.make(arguments.tril, arguments.cache, arguments.text)
    lines = arguments.out / "lines.txt"
    shuffled(arguments.lines, lines, arguments.most)
    results = []
    for beam in map(int, arguments.beams.split(",")):
        print(f"beam {beam}", flush=True)
        with Comparison(arguments, folder, lines, beam) as comparison:
            comparison.check()
            comparison.capacity()
            if not arguments.no_open:
                comparison.latency()
            results.append(comparison.results())
        written = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                   "rounds": arguments.rounds, "seconds": arguments.seconds, "clients": arguments.clients,
                   "results": results}
        (arguments.out / "serving.json").write_text(json.dumps(written, indent=1))
        (arguments.out / f"serving-beam-{beam}.svg").write_text(plot_serving.picture(results[-1]))
    for result in results:
        print("\n" + table(result))


if __name__ == "__main__":
    main()

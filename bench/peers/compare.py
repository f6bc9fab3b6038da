"""tril beside PyTorch, CTranslate2 and Hugging Face on the same work, alternating in one run.

Each round gives a piece of work to tril and then to its rivals, so that all meet the same state of
the machine. Figures are medians over the rounds; a ratio is tril's speed over the rival's best:
above 1, tril is faster. Run it through `compare`, which sets everything up.
"""

import argparse
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys

import work
from processes import Processes, tables

GROUPS = ["gemm", "attention", "train", "translate", "process"]
# Shown for comparison only; the goals are ratios against the others.
BESIDE = "Hugging Face"
# The goal of each comparison: at least this, and what we aim for.
WANTED = {"train tiny": (2.0, None), "train small": (2.0, None), "train base": (1.2, 1.5)}
for beam in ("greedy", "beam 4"):
    WANTED[f"translate fp32 {beam}, batch 1"] = (1.5, 2.0)
    WANTED[f"translate fp32 {beam}, batch 32"] = (1.3, 1.6)
    WANTED[f"translate int8 {beam}, batch 1"] = (1.5, 2.5)
    WANTED[f"translate int8 {beam}, batch 32"] = (1.5, 2.0)
for size in work.ATTENTION:
    WANTED["attention " + "x".join(map(str, size))] = (3.0 if size[2] == 32 else 1.3, None)
for size in work.GEMM:
    WANTED["gemm " + "x".join(map(str, size))] = (0.95, None)


class Tril:
    def __init__(self, program, threads, seconds):
        self.command = [program, "bench", "--json", "--device", "cpu", "--threads", str(threads)]
        self.seconds = seconds
        self.machine = ""

    def describe(self):
        if not self.machine:
            self.measure("gemm", "6x512x512")
        return self.machine

    def measure(self, group, match="", seconds=None):
        command = self.command + ["--only", group, "--match", match]
        command += ["--seconds", str(self.seconds if seconds is None else seconds)]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL, text=True).stdout)
        self.machine = f"{report['machine']}, {report['target']}, {report['threads']} threads"
        return {entry["name"]: entry for entry in report["results"]}


class Figures:
    """Speeds by comparison and system: larger is better."""

    def __init__(self):
        self.speeds = {}

    def add(self, name, system, speed):
        self.speeds.setdefault(name, {}).setdefault(system, []).append(speed)
        print(f"  {name:<44} {system:<24} {speed:12.4g}/s", flush=True)

    def rows(self):
        for name, systems in self.speeds.items():
            medians = {system: statistics.median(speeds) for system, speeds in systems.items()}
            rivals = {system: speed for system, speed in medians.items() if system != "tril"}
            best = max(rivals, key=lambda system: (system != BESIDE, rivals[system]))
            least, aim = WANTED.get(name, (None, None))
            yield {"name": name, "tril": medians["tril"], "rival": best, "rival_speed": rivals[best],
                   "ratio": medians["tril"] / rivals[best], "least": least, "aim": aim,
                   "beside": rivals.get(BESIDE), "all": systems}


def compare_kernels(group, tril, figures, args):
    import pytorch

    for size in work.GEMM if group == "gemm" else work.ATTENTION:
        name = "x".join(map(str, size))
        what = f"{group} {name}"
        if not args.wants(what):
            continue
        if group == "gemm":
            turns = [("tril", lambda: tril.measure("gemm", name)[name]["seconds"]),
                     ("PyTorch", lambda: pytorch.gemm(*size, args.seconds))]
        else:
            turns = [("tril", lambda: tril.measure("attention", name)[name + " forward+backward"]["seconds"]),
                     ("PyTorch SDPA", lambda: pytorch.attention(*size, args.seconds)[1])]
        for system, seconds in args.in_turn(turns):
            figures.add(what, system, 1 / seconds())


trainings = {}


def compare_training(tril, figures, args):
    import pytorch

    for name in work.TRAINING:
        if not args.wants(f"train {name}"):
            continue
        budget = max(args.seconds, 4.0)
        turns = [("tril", lambda: tril.measure("train", name, budget)[name]["tokens_per_s"])]
        for system, compiled in (("PyTorch", False), ("PyTorch compiled", True)):
            if compiled and args.no_compile:
                continue
            if (name, compiled) not in trainings:
                training = trainings[name, compiled] = pytorch.Training(name, compiled)
                training.tokens_per_second(0)  # compiles
                print(f"  {system}: {training.padded:.3f} places a token", flush=True)
            turns.append((system, lambda compiled=compiled: trainings[name, compiled].tokens_per_second(budget)))
        for system, tokens_per_second in args.in_turn(turns):
            figures.add(f"train {name}", system, tokens_per_second())


marian = None


def add_huggingface(name, batch, beam, figures):
    global marian
    import huggingface

    marian = marian or huggingface.Marian()
    figures.add(name, BESIDE, marian.tokens_per_second(batch, beam))


def compare_translation(tril, figures, args):
    import translators

    total = len(work.LENGTHS) * work.TOKENS_OUT
    for compute, batch, beam in itertools.product(("fp32", "int8"), (1, 32), (1, 4)):
        short = f"{compute} {'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
        name = f"translate {short}"
        if not args.wants(name):
            continue
        folder = translators.ctranslate2_model(args.cache, compute)
        turns = [("tril", lambda: tril.measure("translate", f"base {short}")[f"base {short}"]["tokens_per_s"])]
        for inter, intra in ((1, 1), (1, 2), (2, 1)):
            if batch == 1 and inter == 2:
                continue  # one stream
            turns.append((f"CTranslate2 ({inter}, {intra})", lambda inter=inter, intra=intra: total /
                          translators.ctranslate2_seconds(folder, compute.replace("fp32", "float32"), batch, beam,
                                                          inter, intra)))
        for system, tokens_per_second in args.in_turn(turns):
            figures.add(name, system, tokens_per_second())
        if compute == "fp32" and not args.no_huggingface:
            add_huggingface(name, batch, beam, figures)


def table(rows):
    beside = any(row["beside"] for row in rows)
    lines = ["| work | tril | rival | its best | ratio | at least | |" + (f" {BESIDE} |" if beside else ""),
             "|---|---|---|---|---|---|---|" + ("---|" if beside else "")]
    for row in rows:
        wanted = "" if row["least"] is None else f"{row['least']}"
        if row["aim"]:
            wanted += f", aim {row['aim']}"
        verdict = "" if row["least"] is None else ("yes" if row["ratio"] >= row["least"] else "NO")
        lines.append(f"| {row['name']} | {row['tril']:.4g}/s | {row['rival']} | {row['rival_speed']:.4g}/s "
                     f"| {row['ratio']:.2f} | {wanted} | {verdict} |")
        if beside:
            lines[-1] += f" {row['beside']:.4g}/s |" if row["beside"] else " |"
    gemms = [row["ratio"] for row in rows if row["name"].startswith("gemm")]
    if gemms:
        mean = math.exp(sum(map(math.log, gemms)) / len(gemms))
        lines.append(f"| gemm, geometric mean | | PyTorch | | {mean:.2f} | 1.1 | {'yes' if mean >= 1.1 else 'NO'} |"
                     + (" |" if beside else ""))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tril", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cache", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, of " + ", ".join(GROUPS))
    parser.add_argument("--match", default="", help="only work with this in its name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0.3, help="about how long each kernel is repeated")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-huggingface", action="store_true", help="leave Hugging Face out: it is slow")
    parser.add_argument("--processes", type=int, default=30, help="processes of which a round takes the median")
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()
    args.wants = lambda name: args.match in name
    groups = args.only.split(",")
    if unknown := set(groups) - set(GROUPS):
        sys.exit(f"compare: there is no group {', '.join(sorted(unknown))} (there are: {', '.join(GROUPS)})")
    # A system whose threads wait for each other loses whole time slices to other processes, while tril does
    # not: ratios from a busy machine flatter tril.
    args.load = os.getloadavg()[0]
    versions = set_up(groups, args)
    tril, figures, processes = Tril(args.tril, args.threads, args.seconds), Figures(), None
    for number in range(args.rounds):
        # The order alternates from round to round.
        args.in_turn = (lambda turns: turns) if number % 2 == 0 else (lambda turns: turns[::-1])
        print(f"round {number + 1} of {args.rounds}", flush=True)
        for group in groups:
            if group == "train":
                compare_training(tril, figures, args)
            elif group == "translate":
                compare_translation(tril, figures, args)
            elif group == "process":
                processes = processes or Processes(args)
                processes.time(args.processes)
                processes.peaks()
            else:
                compare_kernels(group, tril, figures, args)
    report(tril, figures, processes, versions, args)


def set_up(groups, args):
    """The versions of the rivals of these groups, which get as many threads as tril."""
    versions = {"Python": platform.python_version()}
    if set(groups) & {"gemm", "attention", "train", "translate"}:
        import torch

        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        versions["PyTorch"] = torch.__version__.split("+")[0]
    if set(groups) & {"translate", "process"}:
        import ctranslate2

        versions["CTranslate2"] = ctranslate2.__version__
    if "translate" in groups and not args.no_huggingface:
        import transformers

        versions["transformers"] = transformers.__version__
    return versions


def commit():
    """Of the tree this file lies in, with a mark where something in it was changed since."""
    here = os.path.dirname(os.path.abspath(__file__))
    return subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout.strip()


def report(tril, figures, processes, versions, args):
    rows = list(figures.rows())
    print(f"\n{tril.describe()}; " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    print(f"medians of {args.rounds} rounds; load average {args.load:.1f} before the first")
    if args.load > 0.3:
        print("CAREFUL: the machine had other work, which slows rivals down more than tril. Do not quote these ratios.")
    if rows:
        print(f"ratio = tril's speed / the rival's best\n\n{table(rows)}")
    whole = processes.rows() if processes else {"times": [], "memory": []}
    if processes:
        print("\n" + tables(whole))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"machine": tril.describe(), "commit": commit(), "versions": versions, "rounds": args.rounds, "load_average_before": args.load,
                       "results": rows, "processes": whole}, file, indent=1)


if __name__ == "__main__":
    main()

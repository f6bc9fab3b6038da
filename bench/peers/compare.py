"""tril beside PyTorch and CTranslate2 on the same work, alternating in one run.

Each round gives a piece of work to tril and then to its rivals, so that all meet the same state of
the machine. Figures are medians over the rounds; a ratio is tril's speed over the rival's best:
above 1, tril is faster. Run it through `compare`, which sets everything up.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys

import work

GROUPS = ["gemm", "attention", "train", "translate"]
# What is asked of each comparison: at least, and the aim.
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
        self.command = [program, "bench", "--json", "--threads", str(threads), "--seconds", str(seconds)]
        self.machine = ""

    def measure(self, group, match=""):
        command = self.command + ["--only", group, "--match", match]
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
            best = max(rivals, key=rivals.get)
            least, aim = WANTED.get(name, (None, None))
            yield {"name": name, "tril": medians["tril"], "rival": best, "rival_speed": rivals[best],
                   "ratio": medians["tril"] / rivals[best], "least": least, "aim": aim, "all": systems}


def compare_kernels(group, tril, figures, args):
    import pytorch

    if group == "gemm":
        ours = tril.measure("gemm")
        for size in work.GEMM:
            name = "x".join(map(str, size))
            figures.add("gemm " + name, "tril", 1 / ours[name]["seconds"])
            figures.add("gemm " + name, "PyTorch", 1 / pytorch.gemm(*size, args.seconds))
        return
    ours = tril.measure("attention")
    for size in work.ATTENTION:
        name = "x".join(map(str, size))
        figures.add("attention " + name, "tril", 1 / ours[name + " forward+backward"]["seconds"])
        figures.add("attention " + name, "PyTorch SDPA", 1 / pytorch.attention(*size, args.seconds)[1])


trainings = {}


def compare_training(tril, figures, args):
    import pytorch

    for name in work.TRAINING:
        if not args.wants(f"train {name}"):
            continue
        budget = max(args.seconds, 4.0)
        figures.add(f"train {name}", "tril", tril.measure("train", name)[name]["tokens_per_s"])
        for system, compiled in (("PyTorch", False), ("PyTorch compiled", True)):
            if compiled and args.no_compile:
                continue
            if (name, compiled) not in trainings:
                trainings[name, compiled] = pytorch.Training(name, compiled)
                trainings[name, compiled].tokens_per_second(0)  # compiles
            figures.add(f"train {name}", system, trainings[name, compiled].tokens_per_second(budget))


def compare_translation(tril, figures, args):
    import translators

    for compute, quantization in (("float32", None), ("int8", "int8")):
        short = "fp32" if compute == "float32" else compute
        folder = os.path.join(args.cache, f"ctranslate2-{short}")
        if not os.path.exists(os.path.join(folder, "model.bin")):
            translators.make_ctranslate2_model(folder, quantization)
        for batch in (1, 32):
            for beam, words in ((1, "greedy"), (4, "beam 4")):
                name = f"{short} {words}, batch {batch}"
                if not args.wants(f"translate {name}"):
                    continue
                total = len(work.LENGTHS) * work.TOKENS_OUT
                ours = tril.measure("translate", "base " + name)
                figures.add(f"translate {name}", "tril", ours["base " + name]["tokens_per_s"])
                for inter, intra in ((1, 1), (1, 2), (2, 1)):
                    if batch == 1 and inter == 2:
                        continue  # one stream
                    seconds = translators.ctranslate2_seconds(folder, compute, batch, beam, inter, intra)
                    figures.add(f"translate {name}", f"CTranslate2 ({inter}, {intra})", total / seconds)


def table(rows):
    lines = ["| work | tril | rival | its best | ratio | at least | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        wanted = "" if row["least"] is None else f"{row['least']}"
        if row["aim"]:
            wanted += f", aim {row['aim']}"
        verdict = "" if row["least"] is None else ("yes" if row["ratio"] >= row["least"] else "NO")
        lines.append(f"| {row['name']} | {row['tril']:.4g}/s | {row['rival']} | {row['rival_speed']:.4g}/s "
                     f"| {row['ratio']:.2f} | {wanted} | {verdict} |")
    gemms = [row["ratio"] for row in rows if row["name"].startswith("gemm")]
    if gemms:
        mean = math.exp(sum(map(math.log, gemms)) / len(gemms))
        lines.append(f"| gemm, geometric mean | | PyTorch | | {mean:.2f} | 1.1 | {'yes' if mean >= 1.1 else 'NO'} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tril", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cache", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, of " + ", ".join(GROUPS))
    parser.add_argument("--match", default="", help="only work with this in its name (train, translate)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=0.3, help="about how long each kernel is repeated")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()
    args.wants = lambda name: args.match in name
    groups = args.only.split(",")
    if unknown := set(groups) - set(GROUPS):
        sys.exit(f"compare: there is no group {', '.join(sorted(unknown))} (there are: {', '.join(GROUPS)})")
    versions = {"Python": platform.python_version()}
    if set(groups) - {"translate"}:
        import torch

        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        versions["PyTorch"] = torch.__version__.split("+")[0]
    if "translate" in groups:
        import ctranslate2

        versions["CTranslate2"] = ctranslate2.__version__

    tril, figures = Tril(args.tril, args.threads, args.seconds), Figures()
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", flush=True)
        for group in groups:
            if group == "train":
                compare_training(tril, figures, args)
            elif group == "translate":
                compare_translation(tril, figures, args)
            else:
                compare_kernels(group, tril, figures, args)

    rows = list(figures.rows())
    print(f"\n{tril.machine}; " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    print(f"medians of {args.rounds} rounds; ratio = tril's speed / the rival's best\n\n{table(rows)}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"machine": tril.machine, "versions": versions, "rounds": args.rounds, "results": rows}, file,
                      indent=1)


if __name__ == "__main__":
    main()

"""Whole processes: from the start of a program to its end, and the most memory it held.

The models are made once, in the cache: a made-up language gives a tokenizer of the size that is
asked for, `tril train --updates 1` the weights, `tril quantize` the bytes. Time is the wall time from
asking the system for the process to knowing that it ended, files warm in the page cache. Memory is
VmHWM, the most a process had resident, pages of mapped files included. Python has a share of its own,
so the fair figure is what a process grew by over one that has only loaded its library.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time

import translators
import work

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = ["--preset", "tiny", "--vocab", "8000"]
BASE = ["--preset", "base", "--vocab", str(work.TRANSLATION_VOCAB), "--norm-position", "post", "--activation", "silu"]
TOKENS = 12  # out, for the time of a process
# Goals, in milliseconds.
LIMITS = {"tiny": 50, "base int8": 300}


def made_up_text(path):
    """Words of a made-up language, and sentences in which they are as frequent as words are."""
    draw = random.Random(1)
    heads = ["", *"bdfgklmnprstvz", "sh", "br", "st", "tr", "kl"]
    syllables = [head + vowel + tail for head in heads for vowel in "aeiou" for tail in ("", *"nrsl")]
    words = set()
    while len(words) < 120_000:
        words.add("".join(draw.choice(syllables) for _ in range(draw.choice((1, 2, 2, 3, 3, 4)))))
    words = sorted(words)
    draw.shuffle(words)
    lines = [words[i:i + 12] for i in range(0, len(words), 12)]
    weights = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(words))))
    lines += [draw.choices(words, cum_weights=weights, k=draw.randint(4, 20)) for _ in range(20_000)]
    with open(path, "w") as file:
        for line in lines:
            file.write(" ".join(line) + "\t" + " ".join(reversed(line)) + "\n")


def run_quietly(command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True)
    if result.returncode != 0:
        sys.exit(f"compare: {' '.join(command)} ended with {result.returncode}: {result.stderr.strip()}")


def make_models(program, cache):
    """The folders of the tiny model and of base in bytes; about two minutes, once."""
    tiny, base = os.path.join(cache, "tril-tiny"), os.path.join(cache, "tril-base-int8")
    text, whole = os.path.join(cache, "made-up.tsv"), os.path.join(cache, "tril-base")
    for folder, shape, quantized in ((tiny, TINY, None), (whole, BASE, base)):
        if os.path.exists(os.path.join(quantized or folder, "made")):
            continue
        print(f"  making {quantized or folder} (once)", flush=True)
        if not os.path.exists(text):
            made_up_text(text)
        run_quietly([program, "train", "--tsv", text, "-o", folder, "--overwrite", "--updates", "1", "--warm-up", "1",
                     "--batch-tokens", "256", "--micro-batch-tokens", "256", "--max-tokens", "128", *shape])
        if quantized:
            run_quietly([program, "quantize", folder, "--to", "int8", "-o", quantized])
        # Last, so that a folder that was being made when something broke is made again.
        open(os.path.join(quantized or folder, "made"), "w").close()
    return tiny, base


def sentences(folder, cache):
    """The lengths of work.py in pieces, the end included, made of words that are one piece each."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "tokenizer.model"))
    with open(os.path.join(cache, "made-up.tsv")) as file:
        words = sorted({word for line in file for word in line.split()})
    draw = random.Random(2)
    lines = []
    for length in work.LENGTHS:
        line = []
        while len(line) < length - 1:
            word = draw.choice(words)
            if len(pieces.encode(word)) == 1:
                line.append(word)
        line = " ".join(line)
        assert len(pieces.encode(line)) == length - 1
        lines.append(line)
    return lines


def status(process, fields):
    """Fields of /proc/PID/status in MiB; nothing once the process has ended."""
    try:
        with open(f"/proc/{process}/status") as file:
            found = dict(line.split(":", 1) for line in file)
        return [int(found[field].split()[0]) / 1024 for field in fields]
    except (OSError, KeyError):
        return None


def seconds_of(command, text):
    """Wall time of a process that is given a text, and what it printed."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = process.communicate(text)[0]
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        sys.exit(f"compare: {' '.join(command)} ended with {process.returncode}")
    return seconds, out


def peak_of(command, text):
    """The most memory of a process, read every millisecond: a peak only grows, so the last is it. And
    the most that was its own and not pages of a file."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    peak = own = 0.0
    process.stdin.write(text)
    process.stdin.close()
    os.set_blocking(process.stdout.fileno(), False)
    out = b""
    while True:
        found = status(process.pid, ("VmHWM", "RssAnon"))
        if found:
            peak, own = max(peak, found[0]), max(own, found[1])
        chunk = process.stdout.read()
        if chunk == b"":
            break
        out += chunk or b""
        time.sleep(0.001)
    if process.wait() != 0:
        sys.exit(f"compare: {' '.join(command)} ended with {process.returncode}")
    return peak, own, out


def idle_peak(program):
    """Of a tril that has nothing to do: `tril info`, held up by a pipe that is full."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b" " * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    process = subprocess.Popen([program, "info"], stdout=writer, stderr=subprocess.DEVNULL)
    os.close(writer)
    peak, same = 0.0, 0
    while same < 20:  # waits at its print for 100 ms
        found = status(process.pid, ("VmHWM",))
        same = same + 1 if found and found[0] == peak else 0
        peak = found[0] if found else peak
        time.sleep(0.005)
    os.close(reader)
    process.wait()
    return peak


def translated(out, lines, tokens):
    """Checks that the work was done: so many tokens for each line."""
    results = [json.loads(line) for line in out.decode().splitlines()]
    if len(results) != lines or any(len(result["ids"]) != tokens for result in results):
        sys.exit(f"compare: expected {lines} lines of {tokens} tokens from tril translate, "
                 f"got {[len(result['ids']) for result in results]}")


class Processes:
    """All figures of whole processes, round by round."""

    def __init__(self, args):
        self.args = args
        self.tiny, self.base = make_models(args.tril, args.cache)
        self.lines = sentences(self.base, args.cache)
        self.tiny_lines = sentences(self.tiny, args.cache)
        self.rival_folder = translators.ctranslate2_model(args.cache, "int8")
        self.times = {}
        self.memory = {}

    def tril(self, folder, beam, tokens, batch=32):
        command = [self.args.tril, "translate", folder, "--json", "--threads", str(self.args.threads), "--max-tokens",
                   str(tokens), "--max-ratio", "0", "--batch", str(batch * (beam or 1))]
        return command + (["--beam", str(beam)] if beam else [])

    def rival(self, beam, tokens, inter, intra, lines):
        return [sys.executable, os.path.join(HERE, "ctranslate2_process.py"),
                json.dumps({"folder": self.rival_folder, "beam": beam,
                            "compute": "int8", "batch": 32, "timed": False,
                            "tokens": tokens, "inter": inter, "intra": intra, "lines": lines})]

    def time(self, repetitions):
        """One sentence: medians of many processes, greedy and with the default beam of 5."""
        for name, folder, lines in (("tiny", self.tiny, self.tiny_lines), ("base int8", self.base, self.lines)):
            for beam, words in ((1, "greedy"), (5, "beam 5")):
                what = f"process {name} {words}"
                if not self.args.wants(what):
                    continue
                runs = []
                line = (lines[9] + "\n").encode()  # 28 pieces, the mean
                for _ in range(repetitions):
                    seconds, out = seconds_of(self.tril(folder, beam, TOKENS), line)
                    translated(out, 1, TOKENS)
                    runs.append(1000 * seconds)
                self.add_time(what, "tril", statistics.median(runs), LIMITS[name])
                if name == "tiny":
                    continue
                runs = [1000 * seconds_of(self.rival(beam, TOKENS, 1, self.args.threads, [9]), b"")[0]
                        for _ in range(max(3, repetitions // 10))]
                self.add_time(what, "Python with CTranslate2", statistics.median(runs), None)

    def add_time(self, what, system, milliseconds, limit):
        entry = self.times.setdefault(what, {"limit": limit, "all": {}})
        entry["all"].setdefault(system, []).append(milliseconds)
        print(f"  {what:<44} {system:<24} {milliseconds:9.1f} ms", flush=True)

    def peaks(self):
        """64 sentences, 30 tokens out, batches of 32: the peak, and how much of it is growth."""
        idle = None
        for beam, words in ((1, "greedy"), (4, "beam 4")):
            what = f"memory base int8 {words}, batch 32"
            if not self.args.wants(what):
                continue
            idle = idle or idle_peak(self.args.tril)
            text = "".join(line + "\n" for line in self.lines).encode()
            peak, own, out = peak_of(self.tril(self.base, beam, work.TOKENS_OUT), text)
            translated(out, len(self.lines), work.TOKENS_OUT)
            self.add_peak(what, "tril", idle, peak, own)
            every = list(range(len(work.LENGTHS)))
            for inter, intra in ((1, 1), (1, 2), (2, 1)):
                own, out = peak_of(self.rival(beam, work.TOKENS_OUT, inter, intra, every), b"")[1:]
                told = json.loads(out)
                self.add_peak(what, f"CTranslate2 ({inter}, {intra})", told["idle"], told["peak"], own)

    def add_peak(self, what, system, idle, peak, own):
        self.memory.setdefault(what, {}).setdefault(system, []).append(
            {"idle": idle, "peak": peak, "growth": peak - idle, "own": own})
        print(f"  {what:<44} {system:<24} {peak:9.1f} MiB, {peak - idle:.1f} of it growth", flush=True)

    def rows(self):
        """What goes into the JSON: medians."""
        times, memory = [], []
        for what, entry in self.times.items():
            medians = {system: statistics.median(runs) for system, runs in entry["all"].items()}
            times.append({"name": what, "limit_ms": entry["limit"], "milliseconds": medians, "all": entry["all"]})
        for what, systems in self.memory.items():
            medians = {system: {field: statistics.median(run[field] for run in runs) for field in runs[0]}
                       for system, runs in systems.items()}
            memory.append({"name": what, "mebibytes": medians})
        return {"times": times, "memory": memory}


def tables(rows):
    parts = []
    if rows["times"]:
        lines = ["| process | tril, ms | goal | | Python with CTranslate2, ms |", "|---|---|---|---|---|"]
        for row in rows["times"]:
            ours, rival = row["milliseconds"]["tril"], row["milliseconds"].get("Python with CTranslate2")
            lines.append(f"| {row['name']} | {ours:.1f} | under {row['limit_ms']} "
                         f"| {'yes' if ours < row['limit_ms'] else 'NO'} | {f'{rival:.0f}' if rival else ''} |")
        parts.append("\n".join(lines))
    if rows["memory"]:
        lines = ["| peak memory, MiB | | idle | peak | growth | not of a file | less than the rival's least growth |",
                 "|---|---|---|---|---|---|---|"]
        for row in rows["memory"]:
            least = min((m["growth"] for system, m in row["mebibytes"].items() if system != "tril"), default=None)
            for system, m in row["mebibytes"].items():
                verdict = "" if system != "tril" else ("yes" if m["growth"] < least else "NO")
                verdict += f" ({m['growth'] / least:.2f} of it)" if verdict else ""
                lines.append(f"| {row['name']} | {system} | {m['idle']:.1f} | {m['peak']:.1f} | {m['growth']:.1f} "
                             f"| {m['own']:.1f} | {verdict} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)

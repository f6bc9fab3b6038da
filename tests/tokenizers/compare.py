#!/usr/bin/env python3
"""Compares tril's tokenizers with those of transformers, id for id and text for text.

    compare.py PROGRAM [--lines N] [--kinds KIND...] [--text FILE...] [--keep FOLDER]

PROGRAM is tokenize_lines. For every kind of kinds.py a tokenizer is learnt, and N lines go through both:
a third of real lines (message catalogues under /usr/share/locale in ten scripts, and the files given), a
third of code (the sources of Python's library), a third of random Unicode. Exits with 77 where the packages
or real lines are missing.
"""

import argparse
import gettext
import glob
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

try:
    import kinds
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

SCRIPTS = ["ar", "bn", "de", "el", "fr", "he", "hi", "ja", "ka", "ko", "ru", "ta", "th", "zh_CN", "vi", "tr"]


def catalogue_lines():
    lines = set()
    for script in SCRIPTS:
        for path in sorted(glob.glob(f"/usr/share/locale/{script}/LC_MESSAGES/*.mo")):
            try:
                with open(path, "rb") as file:
                    catalogue = gettext.GNUTranslations(file)._catalog
            except (OSError, struct.error, ValueError, IndexError):
                continue
            for text in catalogue.values():
                if isinstance(text, str):
                    lines.update(part for part in text.split("\n") if part)
    return sorted(lines)


def code_lines():
    lines = []
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
        with open(path, encoding="utf-8", errors="ignore") as file:
            lines += [line.rstrip("\n") for line in file]
    return [line for line in lines if line]


def known_characters():
    """Assigned in the Unicode of this Python, which is older than the libraries'."""
    return [chr(point) for point in range(1, 0x110000)
            if unicodedata.category(chr(point)) not in ("Cn", "Cs", "Co")]


def random_lines(count, generator, real):
    everything = known_characters()
    ranges = [(0x20, 0x7F), (0, 0x20), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x500), (0x590, 0x700),
              (0x900, 0xE00), (0x1100, 0x1200), (0x2000, 0x2070), (0x2100, 0x2200), (0x2E80, 0x3400),
              (0xAC00, 0xAD00), (0xFB00, 0xFE10), (0xFF00, 0xFFF0), (0x1F1E6, 0x1F700)]
    by_range = [[c for c in everything if first <= ord(c) < last] for first, last in ranges]
    words = [" ", "  ", "\t", "\n", "\r\n", "'s", "'LL", "'ſ", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<tool>",
             " <tool>", "<end of tool> ", "theory", "theorys", "<|endoftext|>", ">>fra<<", "<0x41>", "\u2581", "\u200d",
             "__en__", "eng_Latn", "ro_RO", "<extra_id_0>", "१२३", "12345", "ﬁ", "ﬁ\u0301", "e\u0301", "한국"]
    lines = []
    for _ in range(count):
        parts = []
        for _ in range(generator.randint(1, 12)):
            choice = generator.random()
            if choice < 0.3:
                parts.append(generator.choice(words))
            elif choice < 0.5:
                line = generator.choice(real)
                begin = generator.randrange(len(line))
                parts.append(line[begin:begin + generator.randint(1, 20)])
            elif choice < 0.9:
                some = generator.choice(by_range)
                parts.append("".join(generator.choice(some) for _ in range(generator.randint(1, 6))))
            else:
                parts.append("".join(generator.choice(everything) for _ in range(generator.randint(1, 4))))
        lines.append("".join(parts))
    return lines


def ours(program, kind, lines):
    """For each line the ids of the source, of the target, and the text of its pieces."""
    data = b"".join(struct.pack("<I", len(raw)) + raw for raw in (line.encode() for line in lines))
    done = subprocess.run([program, kind.folder, kind.family, *kind.languages], input=data, capture_output=True,
                          check=False)
    if done.returncode:
        sys.exit(f"compare: {kind.folder}: {done.stderr.decode()}")
    results, at = [], 0
    output = done.stdout
    for _ in lines:
        fields = []
        for _ in range(3):
            (length,) = struct.unpack_from("<I", output, at)
            fields.append(output[at + 4:at + 4 + length])
            at += 4 + length
        ids = [list(struct.unpack(f"<{len(field) // 4}i", field)) for field in fields[:2]]
        results.append((*ids, fields[2].decode()))
    return results, done.stderr.decode().strip()


def compare(program, name, kind, lines):
    results, speed = ours(program, kind, lines)
    wrong = {"source": 0, "target": 0, "text": 0}
    shown = 0
    for place, (what, theirs) in enumerate([("source", kind.source(lines)), ("target", kind.target(lines)),
                                            ("text", kind.decode(lines))]):
        for line, result, expected in zip(lines, results, theirs, strict=True):
            if result[place] == expected:
                continue
            wrong[what] += 1
            if shown < 5:
                shown += 1
                print(f"  {name}: {what} of {line!r}\n    theirs {expected!r}\n    ours   {result[place]!r}")
    total = sum(wrong.values())
    print(f"{name}: {len(lines)} lines, {total} differences {wrong if total else ''} ({speed})", flush=True)
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--kinds", nargs="+", default=list(kinds.KINDS))
    parser.add_argument("--text", nargs="*", default=[])
    parser.add_argument("--size", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the tokenizers, which are deleted otherwise")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    real = catalogue_lines()
    for path in arguments.text:
        with open(path, encoding="utf-8") as file:
            real += [line.rstrip("\n") for line in file if line.strip()]
    code = code_lines()
    if len(real) < 1000:
        print("skipped: too few real lines: install packages with message catalogues, or give --text", file=sys.stderr)
        return 77
    learnt = generator.sample(real, min(len(real), 20_000)) + generator.sample(code, min(len(code), 5_000))
    learnt = [line for line in learnt if "\0" not in line]
    generator.shuffle(learnt)
    third = arguments.lines // 3
    lines = [generator.choice(real) for _ in range(third)] + [generator.choice(code) for _ in range(third)]
    lines += random_lines(arguments.lines - 2 * third, generator, real)
    total = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.kinds:
            folder = os.path.join(arguments.keep or scratch, name)
            total += compare(arguments.program, name, kinds.make(name, folder, learnt, arguments.size), lines)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Makes the tables in src/tril/text/pipeline/*.inc; --check compares them with what would be made.

    python3 -m venv /tmp/tables && /tmp/tables/bin/pip install regex==2026.11.9
    /tmp/tables/bin/python scripts/make_tokenizer_tables.py

The patterns of byte-level tokenizers ask for letters, added tokens for characters of words, and the
character maps of SentencePiece in Hugging Face's library for the clusters of characters that people
see as one (Unicode's grapheme clusters, UAX 29). All are read off the module `regex`, one code point
at a time. Hugging Face's library may know an older version of Unicode: the two agree on every
character that both have.
"""

import argparse
import os
import sys

import regex

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "tril", "text", "pipeline")

# The first that fits gives the class.
CLUSTERS = [
    ("Linker", r"\p{InCB=Linker}"),
    ("Consonant", r"\p{InCB=Consonant}"),
    ("Zwj", r"\u200D"),
    ("ConjunctExtend", r"(?=\p{InCB=Extend})\p{GCB=Extend}"),
    ("Extend", r"\p{GCB=Extend}"),
    ("Mark", r"\p{GCB=SpacingMark}"),
    ("Prepend", r"\p{GCB=Prepend}"),
    ("Control", r"\p{GCB=Control}|\p{GCB=CR}|\p{GCB=LF}"),
    ("Flag", r"\p{GCB=Regional_Indicator}"),
    ("L", r"\p{GCB=L}"),
    ("V", r"\p{GCB=V}"),
    ("T", r"\p{GCB=T}"),
    ("Picture", r"\p{Extended_Pictographic}"),
]
LETTERS = [("", r"\p{L}")]
WORDS = [("", r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")]


def ranges(classes):
    """Maximal [first, last, class] in ascending order."""
    patterns = [(name, regex.compile(pattern)) for name, pattern in classes]
    found = []
    for point in range(sys.maxunicode + 1):
        if 0xD800 <= point <= 0xDFFF:  # surrogates are no characters of UTF-8
            continue
        character = chr(point)
        name = next((name for name, pattern in patterns if pattern.fullmatch(character)), None)
        if name is None:
            continue
        if found and found[-1][2] == name and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point, name])
    return found


def table(classes):
    lines = ["// Made by scripts/make_tokenizer_tables.py; do not edit.",
             f"// The classes of regex {regex.__version__}.", "// clang-format off"]
    row = ""
    for first, last, name in ranges(classes):
        kind = f", Cluster::k{name}" if name else ""
        entry = f"{{0x{first:04X}, 0x{last:04X}{kind}}},"
        if len(row) + len(entry) + 1 > 100:
            lines.append(row)
            row = ""
        row = f"{row} {entry}" if row else entry
    return "\n".join(lines + [row, "// clang-format on"]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    arguments = parser.parse_args()
    for name, classes in [("letters", LETTERS), ("words", WORDS), ("clusters", CLUSTERS)]:
        path = os.path.join(FOLDER, name + ".inc")
        text = table(classes)
        if not arguments.check:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            continue
        with open(path, encoding="ascii") as file:
            if file.read() != text:
                sys.exit(f"make_tokenizer_tables: {name}.inc is not what would be made")


if __name__ == "__main__":
    main()

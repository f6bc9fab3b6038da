#!/usr/bin/env python3
"""Makes src/tril/text/unicode_tables.inc, and --check compares it with what would be made.

    python3 -m venv /tmp/tables && /tmp/tables/bin/pip install regex==2026.11.9
    /tmp/tables/bin/python scripts/make_unicode_tables.py

Scores must equal sacreBLEU's, whose tokenizer `intl` asks the module `regex` for the classes of
characters; so the classes are read off `regex`, one code point at a time. Made with Python 3.11.7
and regex 2026.11.9, which knows Unicode 18.0. The standard library of that Python knows Unicode 14.0:
both must agree on every character that the older version has, and that is checked here.
White space is what str.split() and str.rstrip() of Python take for it.
"""

import argparse
import os
import sys
import unicodedata

import regex

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = os.path.join(HERE, "..", "src", "tril", "text", "unicode_tables.inc")
CLASSES = "PSN"  # punctuation, symbols, numbers


def character_class(point):
    """The letter of the class that `regex` puts the code point in; "" for every other class."""
    character = chr(point)
    letters = [letter for letter in CLASSES if PATTERNS[letter].match(character)]
    assert len(letters) <= 1, hex(point)
    return letters[0] if letters else ""


def check_against_unicodedata(point, letter):
    category = unicodedata.category(chr(point))
    if category == "Cn":  # not assigned in the older version
        return
    expected = category[0] if category[0] in CLASSES else ""
    assert letter == expected, f"U+{point:04X}: regex {letter!r}, unicodedata {category}"


def class_ranges():
    """Maximal [first, last] of one class, in ascending order."""
    ranges = []
    for point in range(sys.maxunicode + 1):
        if 0xD800 <= point <= 0xDFFF:  # surrogates are no characters of UTF-8
            continue
        letter = character_class(point)
        check_against_unicodedata(point, letter)
        if not letter:
            continue
        if ranges and ranges[-1][2] == letter and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, letter])
    return ranges


def check_white_space():
    """unicode.cpp writes this short list out; it must be Python's."""
    white = [point for point in range(sys.maxunicode + 1) if chr(point).isspace()]
    assert white == [point for point in range(sys.maxunicode + 1) if not chr(point).split()]
    assert white == [*range(0x09, 0x0E), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680,
                     *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]


def table():
    lines = ["// Made by scripts/make_unicode_tables.py; do not edit.",
             f"// The classes of regex {regex.__version__}, which the standard library of Python "
             f"{sys.version.split()[0]}", f"// (Unicode {unicodedata.unidata_version}) confirms "
             "for every character it knows.", "// clang-format off"]
    row = ""
    for first, last, letter in class_ranges():
        entry = f"{{0x{first:04X}, 0x{last:04X}, k{letter}}},"
        if len(row) + len(entry) + 1 > 100:
            lines.append(row)
            row = ""
        row = f"{row} {entry}" if row else entry
    lines += [row, "// clang-format on"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    arguments = parser.parse_args()
    check_white_space()
    text = table()
    if arguments.check:
        with open(TABLES, encoding="ascii") as file:
            if file.read() != text:
                sys.exit("make_unicode_tables: unicode_tables.inc is not what would be made")
        return
    with open(TABLES, "w", encoding="ascii") as file:
        file.write(text)


PATTERNS = {letter: regex.compile(r"\p{%s}" % letter) for letter in CLASSES}

if __name__ == "__main__":
    main()

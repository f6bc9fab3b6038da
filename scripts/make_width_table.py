#!/usr/bin/env python3
"""Makes src/tril/text/width_table.inc: characters that take no column of a terminal, or two.

No column: marks that stand above, below or inside another character (categories Mn and Me) and
characters that only steer (Cf, but not the soft hyphen). Spacing marks (Mc), such as the vowel sign
of का, take one. Two columns: East Asian wide and full-width characters. These are the rules of most
terminals and of the C library's wcwidth(). Read off the standard library of Python.
"""

import os
import sys
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "src", "tril", "text", "width_table.inc")


def width(point):
    character = chr(point)
    category = unicodedata.category(character)
    if category in ("Mn", "Me") or (category == "Cf" and point != 0xAD):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def ranges():
    found = []
    for point in range(0x80, sys.maxunicode + 1):
        columns = 1 if 0xD800 <= point <= 0xDFFF else width(point)
        if columns == 1:
            continue
        if found and found[-1][2] == columns and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point, columns])
    return found


def main():
    lines = ["// Made by scripts/make_width_table.py; do not edit.",
             f"// Unicode {unicodedata.unidata_version}.", "// clang-format off"]
    row = ""
    for first, last, columns in ranges():
        entry = f"{{0x{first:04X}, 0x{last:04X}, {columns}}},"
        if len(row) + len(entry) + 1 > 100:
            lines.append(row)
            row = ""
        row = f"{row} {entry}" if row else entry
    lines += [row, "// clang-format on"]
    with open(TABLE, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""Growth with length and batch as small pictures, both axes by powers.

    tril bench --only growth --json > growth.json
    python3 bench/peers/plot_growth.py growth.json > docs/growth.svg
"""

import html
import json
import math
import sys

WIDTH, PANEL, HEIGHT, LEFT, TOP, BELOW = 900, 300, 250, 58, 46, 44
STYLE = """svg{background:#fff;color-scheme:light dark}text{font:12px system-ui,sans-serif;fill:#333}
.title{font-weight:600}.grid{stroke:#e2e2e2;fill:none}.end{text-anchor:end}.middle{text-anchor:middle}
.slope{stroke:#999;stroke-dasharray:2 4;fill:none}.note{fill:#777}
.line{fill:none;stroke-width:2}.a{stroke:#0072b2}.b{stroke:#d55e00}.c{stroke:#009e73}.d{stroke:#999;stroke-dasharray:6 4}
.fa{fill:#0072b2}.fb{fill:#d55e00}.fc{fill:#009e73}.fd{fill:#777}
@media(prefers-color-scheme:dark){svg{background:#181818}text{fill:#ccc}.grid{stroke:#333}.note{fill:#999}
.a{stroke:#56b4e9}.b{stroke:#e69f00}.c{stroke:#2cc69a}.fa{fill:#56b4e9}.fb{fill:#e69f00}.fc{fill:#2cc69a}.fd{fill:#999}}"""


def number(value):
    """Few characters: 0.5, 20, 4k."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


class Panel:
    """A picture of some curves: points (x, y) by name, drawn where x and y are powers of their base."""

    def __init__(self, title, unit, axis, curves, slope=True):
        self.title, self.unit, self.axis, self.slope = title, unit, axis, slope
        self.curves = {name: points for name, points in curves.items() if points}

    def svg(self, x0, y0):
        points = [point for curve in self.curves.values() for point in curve]
        self.low_x, self.high_x = (f(math.log2(x) for x, _ in points) for f in (min, max))
        self.low_y = math.floor(min(math.log10(y) for _, y in points))
        self.high_y = max(math.ceil(max(math.log10(y) for _, y in points)), self.low_y + 1)
        self.x0, self.y0 = x0 + LEFT, y0 + TOP
        self.wide, self.high = PANEL - LEFT - 20, HEIGHT - TOP - BELOW
        out = [f'<text class="title" x="{self.x0}" y="{y0 + 18}">{html.escape(self.title)}</text>',
               f'<text class="note" x="{self.x0}" y="{y0 + 34}">{html.escape(self.unit)}</text>']
        out += self.grid()
        for kind, (name, curve) in zip("abcd", self.curves.items()):
            kind = "d" if name.startswith("if ") else kind
            path = "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in curve)
            out.append(f'<path class="line {kind}" d="M{path}"/>')
            out += [f'<circle class="f{kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.5"/>' for x, y in curve]
        out += self.legend()
        return out

    def x(self, x):
        return self.x0 + (math.log2(x) - self.low_x) / (self.high_x - self.low_x) * self.wide

    def y(self, y):
        return self.y0 + self.high - (math.log10(y) - self.low_y) / (self.high_y - self.low_y) * self.high

    def grid(self):
        out = []
        for power in range(self.low_y, self.high_y + 1):
            y = self.y(10.0**power)
            out.append(f'<path class="grid" d="M{self.x0} {y:.1f}h{self.wide}"/>')
            out.append(f'<text class="end" x="{self.x0 - 6}" y="{y + 4:.1f}">{number(10.0**power)}</text>')
        for power in range(int(self.low_x), int(self.high_x) + 1, 2):
            x = self.x(2.0**power)
            out.append(f'<path class="grid" d="M{x:.1f} {self.y0}v{self.high}"/>')
            out.append(f'<text class="middle" x="{x:.1f}" y="{self.y0 + self.high + 16}">{2**power:,}</text>')
        out.append(f'<text class="middle note" x="{self.x0 + self.wide / 2}" y="{self.y0 + self.high + 32}">'
                   f"{html.escape(self.axis)}</text>")
        if self.slope:
            # Twice as much for twice the length: as far as the picture reaches from its lower right corner.
            steps = min(self.high_x - self.low_x, (self.high_y - self.low_y) / math.log10(2))
            left = 2.0**(self.high_x - steps)
            out.append(f'<path class="slope" d="M{self.x(left):.1f} {self.y(10.0**self.low_y):.1f}'
                       f'L{self.x0 + self.wide} {self.y(10.0**self.low_y * 2.0**steps):.1f}"/>')
        return out

    def legend(self):
        """The name of each curve where it begins, pushed apart where two begin together."""
        out, taken = [], []
        for kind, (name, curve) in zip("abcd", self.curves.items()):
            kind = "d" if name.startswith("if ") else kind
            if kind == "d":  # what is not so: at its end, above the line
                x, y = self.x(curve[-1][0]) - 10, self.y(curve[-1][1]) + 4
                out.append(f'<text class="fd end" x="{x:.1f}" y="{y:.1f}">{html.escape(name)}</text>')
                continue
            y = self.y(curve[0][1]) - 7
            while any(abs(y - other) < 14 for other in taken):
                y -= 4
            taken.append(y)
            out.append(f'<text class="f{kind}" x="{self.x(curve[0][0]) + 4:.1f}" y="{y:.1f}">{html.escape(name)}</text>')
        return out


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: plot_growth.py FILE.json > FILE.svg")
    with open(sys.argv[1]) as file:
        document = json.load(file)
    series = {}
    for row in document["results"]:
        if "series" in row:
            series.setdefault(row["series"], []).append(row)

    def curve(name, value):
        return [(row["at"], value(row)) for row in series.get(name, [])]

    def micro(row):
        return 1e6 / row["tokens_per_s"]

    def resident(row):
        return row["resident_mebibytes"]

    attention = curve("attention by length", lambda row: row["mebibytes"])
    panels = []
    for axis, label in (("length", "tokens a sentence, in and out"), ("batch", "sentences at a time")):
        panels.append(Panel(f"Translating, by {axis}", "µs a token", label,
                            {word: curve(f"translate {word} by {axis}", micro) for word in ("fp32", "int8")},
                            axis == "length"))
    panels.append(Panel("Attention's memory", "MiB, forward and backward, 8 heads", "tokens",
                        {"tril": attention,
                         "if it kept all scores": [(x, 8 * x * x * 4 / 2**20) for x, _ in attention]}))
    for axis, label in (("length", "tokens a sentence, 4,096 an update"), ("batch", "sentences an update")):
        panels.append(Panel(f"Training, by {axis}", "µs a target token", label,
                            {"fp32": curve(f"train by {axis}", micro)}, axis == "length"))
    panels.append(Panel("The whole process", "MiB at most", "tokens a sentence",
                        {name: curve(f"{what} by length", resident)
                         for name, what in (("training", "train"), ("translating, fp32", "translate fp32"),
                                            ("int8", "translate int8"))}))
    panels = [panel for panel in panels if panel.curves]
    rows = math.ceil(len(panels) / 3)
    height = rows * HEIGHT + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
           f"<style>{STYLE}</style>"]
    for i, panel in enumerate(panels):
        out += panel.svg(i % 3 * PANEL, i // 3 * HEIGHT)
    out.append(f'<text class="note" x="{LEFT}" y="{height - 8}">{html.escape(document["machine"])}, '
               f'{document["threads"]} threads. Dotted: twice as much for twice the length.</text>')
    print("\n".join(out + ["</svg>"]))


if __name__ == "__main__":
    main()

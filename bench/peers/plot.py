"""A picture of what compare.py wrote: one bar per ratio, and a mark for the goal.

    python3 bench/peers/plot.py FILE.json [FILE.json ...] > docs/performance.svg
"""

import html
import json
import sys

WIDTH, LEFT, RIGHT, ROW, TOP = 760, 300, 60, 22, 34
STYLE = """svg{background:#fff;color-scheme:light dark}text{font:12px system-ui,sans-serif;fill:#333}
.bar{fill:#0072b2}.short{fill:#d55e00}.grid{stroke:#ddd}.one{stroke:#333}.goal{stroke:#111;stroke-width:2}
.end{text-anchor:end}.middle{text-anchor:middle}
@media(prefers-color-scheme:dark){svg{background:#181818}text{fill:#ccc}.bar{fill:#56b4e9}.short{fill:#e69f00}
.grid{stroke:#333}.one,.goal{stroke:#eee}}"""


def main():
    rows = []
    for path in sys.argv[1:]:
        with open(path) as file:
            rows += [row for row in json.load(file)["results"] if not row["name"].startswith("gemm")]
    most = max(max(row["ratio"], row["least"] or 0) for row in rows)
    scale = (WIDTH - LEFT - RIGHT) / most
    height = TOP + ROW * len(rows) + 14
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
           f"<style>{STYLE}</style>"]
    for times in range(1, int(most) + 1):
        x = LEFT + times * scale
        kind = "one" if times == 1 else "grid"
        out.append(f'<path class="{kind}" d="M{x:.1f} {TOP - 8}V{height - 10}"/>')
        out.append(f'<text class="middle" x="{x:.1f}" y="{TOP - 14}">{times}×</text>')
    for i, row in enumerate(rows):
        y = TOP + ROW * i
        short = row["least"] is not None and row["ratio"] < row["least"]
        width = row["ratio"] * scale
        out.append(f'<text class="end" x="{LEFT - 10}" y="{y + 12}">{html.escape(row["name"])}</text>')
        out.append(f'<rect class="{"short" if short else "bar"}" x="{LEFT}" y="{y}" width="{width:.1f}" height="14"/>')
        end = LEFT + max(row["ratio"], row["least"] or 0) * scale
        out.append(f'<text x="{end + 7:.1f}" y="{y + 12}">{row["ratio"]:.2f}</text>')
        if row["least"] is not None:
            x = LEFT + row["least"] * scale
            out.append(f'<path class="goal" d="M{x:.1f} {y - 2}v18"/>')
    print("\n".join(out + ["</svg>"]))


if __name__ == "__main__":
    main()

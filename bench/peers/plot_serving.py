"""A picture of what serve.py wrote: latency over throughput, one curve per server and percentile.

    python3 bench/peers/plot_serving.py serving.json BEAM > docs/serving.svg
"""

import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 130, 40, 56
STYLE = """svg{background:#fff;color-scheme:light dark}text{font:12px system-ui,sans-serif;fill:#333;
paint-order:stroke;stroke:#fff;stroke-width:3}
path{fill:none;stroke-width:2}.grid{stroke:#ddd;stroke-width:1}.all{stroke:#333;stroke-width:1;stroke-dasharray:2 3}
.a{stroke:#0072b2}.b{stroke:#d55e00}circle.a{fill:#0072b2}circle.b{fill:#d55e00}.p50{stroke-dasharray:6 4}
.end{text-anchor:end}.middle{text-anchor:middle}
@media(prefers-color-scheme:dark){svg{background:#181818}text{fill:#ccc;stroke:#181818}
.grid{stroke:#333}.all{stroke:#eee}
.a{stroke:#56b4e9}.b{stroke:#e69f00}circle.a{fill:#56b4e9}circle.b{fill:#e69f00}}"""


def step_of(most):
    """A round number of which four to eight fit."""
    rough = most / 6
    power = 10 ** math.floor(math.log10(rough))
    return min((power * factor for factor in (1, 2, 5, 10)), key=lambda step: abs(math.log(step / rough)))


def picture(result):
    """The SVG of one beam's result."""
    curves = {name: [(point["requests_per_second"], point["latency_ms"]) for point in server["open"]]
              for name, server in result["servers"].items() if server["open"]}
    every = [told[name] for curve in curves.values() for _, told in curve for name in ("p50", "p99")] or [1]
    most = 1.05 * max([result["batches_per_second"], *(x for curve in curves.values() for x, _ in curve)])
    low, high = math.floor(2 * math.log10(min(every))) / 2, math.ceil(2 * math.log10(max(every))) / 2
    high = max(high, low + 0.5)

    def x_of(rate):
        return LEFT + rate / most * (WIDTH - LEFT - RIGHT)

    def y_of(milliseconds):
        return TOP + (high - math.log10(milliseconds)) / (high - low) * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">',
           f"<style>{STYLE}</style>"]
    step = step_of(most)
    for i in range(int(most / step) + 1):
        x = x_of(i * step)
        out.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        out.append(f'<text class="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}">{i * step:g}</text>')
    for power in range(math.floor(low), math.ceil(high) + 1):
        for factor in (1, 2, 5):
            value = factor * 10.0 ** power
            if low - 1e-9 <= math.log10(value) <= high + 1e-9:
                y = y_of(value)
                out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
                out.append(f'<text class="end" x="{LEFT - 8}" y="{y + 4:.1f}">{value:g}</text>')
    search = "greedy" if result["beam"] == 1 else f"beam {result['beam']}"
    out.append(f'<text x="{LEFT}" y="{TOP - 16}">latency in ms, {search}, from the scheduled arrival</text>')
    out.append(f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}">sentences per second</text>')
    x = x_of(result["batches_per_second"])
    out.append(f'<path class="all" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
    out.append(f'<text class="middle" x="{x:.1f}" y="{TOP - 4}">tril translate, in batches</text>')
    labels = []
    for kind, (name, curve) in zip("ab", curves.items()):
        for percentile in ("p99", "p50"):
            points = [(x_of(rate), y_of(told[percentile])) for rate, told in curve]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            out.append(f'<path class="{kind} {percentile}" d="M{path}"/>')
            out += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
            x, y = points[-1]
            labels.append(f'<text x="{x + 8:.1f}" y="{y + (-2 if percentile == "p99" else 12):.1f}">{name} '
                          f'{percentile}</text>')
    return "\n".join(out + labels + ["</svg>", ""])


def main():
    with open(sys.argv[1]) as file:
        results = json.load(file)["results"]
    print(picture(next(result for result in results if result["beam"] == int(sys.argv[2]))), end="")


if __name__ == "__main__":
    main()

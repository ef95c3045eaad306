#!/usr/bin/env python3
"""Draws bench/peers.svg from the tables of the benchmark `peers` in bench/RESULTS.md."""

import pathlib
import re

BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
COLORS = ["#0b6e7f", "#d9822b", "#8a8f98", "#6b5bd2"]
LEFT, WIDTH, BAR, GAP = 275, 520, 16, 18


def tables(text):
    """Returns the title of each workload, and its servers with their M samples per CPU-second."""
    section = text.split("\n## peers\n")[1].split("\n## ")[0]
    for part in re.split(r"\n\*\*(?=\()", section)[1:]:
        title = part.split("**")[0]
        rows = re.findall(r"^\| ([A-Z]\w+) \| ([\d.]+) \|", part, re.M)
        if rows and " x " in title:
            yield title, [(server, float(rate)) for server, rate in rows]


def chart(workloads):
    """Returns the chart as SVG."""
    most = max(rate for _, rows in workloads for _, rate in rows)
    servers = list(dict.fromkeys(server for _, rows in workloads for server, _ in rows))
    lines, y = [], 34
    for title, rows in workloads:
        middle = y + BAR * len(rows) / 2 + 5
        lines.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{title}</text>')
        for server, rate in rows:
            width, color = WIDTH * rate / most, COLORS[servers.index(server)]
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 3}" fill="{color}"/>')
            lines.append(f'<text x="{LEFT + width + 6:.0f}" y="{y + 11}">{server} {rate:g}</text>')
            y += BAR
        y += GAP
    head = f'<text x="{LEFT}" y="20" font-weight="bold">million samples per second of processor time</text>'
    size = f'width="{LEFT + WIDTH + 150}" height="{y}" viewBox="0 0 {LEFT + WIDTH + 150} {y}"'
    style = 'font-family="sans-serif" font-size="12" fill="#24292f"'
    page = '<rect width="100%" height="100%" fill="#ffffff"/>'
    body = "\n".join([page, head, *lines])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">\n{body}\n</svg>\n'


workloads = sorted(tables((BENCH / "RESULTS.md").read_text()))
(BENCH / "peers.svg").write_text(chart(workloads))

#!/usr/bin/env python3
"""Draws the picture of the README, accuracy against bytes, from the table of docs/benchmarks/peers.md.

    tools/measure/draw_accuracy.py [--check]      (--check: only says whether the picture is up to date)

Every configuration of that table is a point: the size of its file, and top-1 on the same photos. Configurations below the least
accuracy of the picture are left out, and the text under it counts them.
"""

import argparse
import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE, PICTURE = ROOT / "docs" / "benchmarks" / "peers.md", ROOT / "docs" / "site" / "static" / "accuracy_against_bytes.svg"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 380, 60, 46, 16, 52
MOST_MB, LEAST, MOST = 20, 50, 88
COLOURS = {"Bitpress": "#0b6e4f", "AMD Quark": "#b5446e", "ONNX Runtime": "#2f5fb3", "ONNX Neural Compressor": "#c27c0e", "-": "#555555"}
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([\d.]+) % \|(?:[^|]*\|){5} ([\d.]+) \|$", re.MULTILINE)


def points():
    """(tool, configuration, MB, top-1) of each row."""
    table = TABLE.read_text(encoding="utf-8").partition("<!-- table: peers -->")[2].partition("\n\n## ")[0]
    return [(tool.strip(), name.strip(), float(size), float(top1)) for tool, name, top1, size in ROW.findall(table)]


def place(megabytes, top1):
    x = LEFT + megabytes / MOST_MB * (WIDTH - LEFT - RIGHT)
    return x, TOP + (MOST - top1) / (MOST - LEAST) * (HEIGHT - TOP - BOTTOM)


def picture():
    found = points()
    shown = [point for point in found if point[3] >= LEAST]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" role="img" '
             'aria-label="Top-1 accuracy against the size of the file">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for top1 in range(LEAST, MOST, 10):
        _, y = place(0, top1)
        lines += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>', f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{top1} %</text>']
    for megabytes in range(0, MOST_MB + 1, 4):
        x, y = place(megabytes, LEAST)
        lines += [f'<path d="M{x:.1f} {TOP}V{y:.1f}" stroke="#eeeeee"/>', f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{megabytes} MB</text>']
    for number, (tool, colour) in enumerate(COLOURS.items()):
        x = LEFT + (0, 90, 190, 310, 500)[number]
        name = "the float model" if tool == "-" else tool
        lines += [f'<circle cx="{x}" cy="22" r="5" fill="{colour}"/>', f'<text x="{x + 10}" y="26">{name}</text>']
    for tool, name, megabytes, top1 in shown:
        x, y = place(megabytes, top1)
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{COLOURS[tool]}" fill-opacity="0.85">'
                     f'<title>{html.escape(f"{tool} {name}: {top1} %, {megabytes} MB")}</title></circle>')
    for tool, name, megabytes, top1 in shown:
        if tool == "Bitpress" and name in ("MX6", "MXFP6E2M3", "BF16"):
            x, y = place(megabytes, top1)
            lines.append(f'<text x="{x + 9:.1f}" y="{y + 4:.1f}" fill="{COLOURS[tool]}">{name}</text>')
    lines += [f'<text x="{LEFT}" y="{HEIGHT - 10}">EfficientNet-Lite0: top-1 of 200 photos against the bytes of the file. '
              f'{len(found) - len(shown)} of {len(found)} configurations lie below {LEAST} %.</text>', "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Draw accuracy against bytes.")
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    text = picture()
    if is_check and (not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != text):
        sys.exit(f"{PICTURE.relative_to(ROOT)} is not up to date; run tools/measure/draw_accuracy.py")
    if not is_check:
        PICTURE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

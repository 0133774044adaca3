"""Runs the commands of pages word for word, and holds what they print to what the pages show.

usage: pages.py [--write] PAGE...    in a folder with examples/, with the command `bitpress` and the package `bitpress` installed

A block of commands is run as one script, in the folder of the last `cd`. If a block of text follows it, each line of that must come, in this order, among the lines
that were printed: numbers, names of presets and whether a trial keeps the limits may differ, because times do, and a line `...` stands for any
lines. --write puts what was printed in the place of such lines. The first block that fails ends the run with exit code 1.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def form_of(line):
    """A line without what differs from machine to machine."""
    line = re.sub(r"^[+ ] (?=[A-Z])", "  ", line)
    line = re.sub(r" +misses: [a-z, ]+$", "", line)
    line = re.sub(r"\b[A-Z]\w*[_\d]\w*\b", "PRESET", line)
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\d,.]*", "0", line)).replace("kB", "MB").rstrip()


def compare(shown, printed):
    """Returns the shown lines as they were printed. Raises ValueError with the first line that was not."""
    lines, found = iter(printed.splitlines()), []
    for line in shown.splitlines():
        if line != "...":
            try:
                line = next(other for other in lines if form_of(other) == form_of(line))
            except StopIteration:
                raise ValueError(line) from None
        found.append(line.rstrip())
    return "".join(f"{line}\n" for line in found)


def run(page):
    """Returns the page with the lines that were printed."""
    text, shift, folder = page.read_text(encoding="utf-8"), 0, Path()
    for block in BLOCK.finditer(text):
        begin = time.monotonic()
        result = subprocess.run(["bash", "-euc", block[1]], cwd=folder, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        folder = folder.joinpath(*re.findall(r"^cd (\S+)$", block[1], re.MULTILINE))
        title = " ".join(block[1].split())[:100]
        if result.returncode:
            sys.exit(f"{result.stdout}\n{page.name}: exit code {result.returncode}: {title}")
        try:
            found = compare(block[2] or "", result.stdout)
        except ValueError as error:
            sys.exit(f"{result.stdout}\n{page.name}: the page shows a line that was not printed: {error}\nby {title}")
        if block[2]:
            first, last = (block.span(2)[i] + shift for i in (0, 1))
            text = text[:first] + found + text[last:]
            shift += len(found) - len(block[2])
        print(f"{time.monotonic() - begin:6.1f} s  {title}", flush=True)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("pages", nargs="+", type=Path)
    arguments = parser.parse_args()
    for page in arguments.pages:
        text = run(page)
        if arguments.write:
            page.write_text(text, encoding="utf-8")
        print(f"{page.name} passed", flush=True)


if __name__ == "__main__":
    main()

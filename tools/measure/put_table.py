#!/usr/bin/env python3
"""Puts a table of measurements into a page of docs/benchmarks, with the date and this machine.

    SCRIPT | tools/measure/put_table.py docs/benchmarks/accuracy.md placement

The first Markdown table of the standard input, which is also printed, replaces what stands behind the line `<!-- table: placement -->`
of the page up to the end of the table there.
"""
import argparse
import datetime
import os
import platform
import re
import sys
from pathlib import Path


def machine():
    """This processor by its name, and the instructions that decide how fast integers are."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    flags = {"avx512_vnni": "AVX-512 VNNI", "avx_vnni": "AVX-VNNI", "avx512f": "AVX-512", "avx2": "AVX2", "asimddp": "dot products"}
    known = next((shown for flag, shown in flags.items() if re.search(rf"\b{flag}\b", text)), platform.machine())
    return f"{name[1] if name else platform.machine()} with {known}, {len(os.sched_getaffinity(0))} cores"


def first_table(text):
    table = re.search(r"^\|.*\n(?:\|.*\n?)+", text, re.MULTILINE)
    if not table:
        raise ValueError("the input has no table")
    return table[0].rstrip()


def with_table(page, name, table, line):
    """The text of a page with this table, and the line about it, in place of those behind the mark."""
    mark = f"<!-- table: {name} -->\n"
    head, found, rest = page.partition(mark)
    old = re.match(r"(?:[^|\n].*\n|\n)*(?:\|.*\n)+", rest)
    if not found or not old:
        raise ValueError(f"the page has no table behind '{mark.strip()}'")
    return f"{head}{mark}*{line}*\n\n{table}\n{rest[old.end():]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("name", help="the word in the page's line `<!-- table: NAME -->`")
    arguments = parser.parse_args()
    text = sys.stdin.read()
    print(text, end="")
    try:
        page = with_table(arguments.page.read_text(encoding="utf-8"), arguments.name, first_table(text), f"{datetime.date.today()}, {machine()}")
    except ValueError as error:
        sys.exit(f"put_table: {arguments.page}: {error}")
    arguments.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

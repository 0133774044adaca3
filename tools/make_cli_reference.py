#!/usr/bin/env python3
"""Writes docs/reference_cli.md from `bitpress --help` and `bitpress COMMAND --help`.

    python tools/make_cli_reference.py [--check] --program build/bitpress      (--check: only says whether it is up to date)
"""

import html
import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import List

from made_page import cell, main

PAGE = Path("docs/reference_cli.md")
HEAD = """# The command line

This page lists every command and option, for people who look one up. `tools/make_cli_reference.py` makes it from the program's help texts;
`bitpress COMMAND --help` prints the same.
"""
# Sections whose lines are a name and, behind it or further to the right in the lines below, its text; and the headings of their tables.
LISTS = {"Positionals:": "argument", "Options:": "option", "Subcommands:": "command", "Settings (--set KEY=VALUE):": "setting, `--set KEY=VALUE`"}
TEXT_INDENT = 6


def help_of(program: Path, *command: str) -> str:
    return subprocess.run([str(program), *command, "--help"], capture_output=True, text=True, check=True).stdout


def code(text: str) -> str:
    """Code in a cell: a bar ends cells even there, and what may stand for it differs between readers of Markdown."""
    return f"`{text}`" if "|" not in text else f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def table(title: str, lines: List[str]) -> List[str]:
    rows: List[List[str]] = []
    for line in lines:
        if line.startswith(" " * TEXT_INDENT):
            rows[-1][1] += " " + line.strip()
        else:
            name, _, text = line.strip().partition("  ")
            rows.append([name, text.strip()])
    result = [f"| {LISTS[title]} | meaning |", "|---|---|"]
    for name, text in rows:
        shown = f"[`{name}`](#bitpress-{name})" if title == "Subcommands:" else code(name)
        result.append(f"| {shown} | {cell(text.strip())} |")
    return result


def section(text: str) -> List[str]:
    """One command's help as Markdown: lists become tables, indented lines code, and other lines without a gap one paragraph."""
    about, usage, *rest = text.rstrip().split("\n")
    lines = ["", cell(about), "", "```text", usage, "```"]
    for block in re.split(r"\n\n+", "\n".join(rest).strip()):
        title, *body = block.split("\n")
        if title in LISTS:
            lines += ["", *table(title, body)]
            continue
        for is_listing, group in itertools.groupby(block.split("\n"), lambda line: line.startswith(" ")):
            if is_listing:
                lines += ["", "```sh" if title.startswith("Example") else "```text", *[line[2:] for line in group], "```"]
            else:
                lines += ["", *map(cell, group)]
    return lines


def page_text(program: Path) -> str:
    overview = help_of(program)
    commands = re.findall(r"^  ([a-z]+) {2,}", overview.partition("Subcommands:")[2], re.MULTILINE)
    lines = [HEAD.rstrip(), *section(overview)]
    for command in commands:
        lines += ["", f"## bitpress {command}", *section(help_of(program, command))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/make_cli_reference.py", page_text))

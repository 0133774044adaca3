"""Pages of docs/ that tools make from what the program prints: cells of their tables, and the command line that all these tools have."""

import argparse
import re
import sys
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[1]


def cell(text: str) -> str:
    """A text as a cell of a table: words that Markdown would read as its own stay as they are, and so does what is in backticks."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else re.sub(r"([*_<])", r"\\\1", part) for part in parts)


def main(page: Path, tool: str, page_text: Callable[[Path], str]) -> int:
    """Writes page_text(program) into the page, a path from the root; with --check, only says whether it is up to date."""
    parser = argparse.ArgumentParser(description=f"Write {page}.")
    parser.add_argument("--program", type=Path, required=True, help="the built program")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text, path = page_text(arguments.program), ROOT / page
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    if arguments.check:
        print(f"{page} is not up to date; run {tool}", file=sys.stderr)
        return 1
    path.write_text(text, encoding="utf-8")
    return 0

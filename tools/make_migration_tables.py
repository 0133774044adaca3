#!/usr/bin/env python3
"""Writes the tables of fates in docs/migrate_*.md from the tables that the package checks words with.

    python tools/make_migration_tables.py [--check] --package build/python      (--check: only says whether they are up to date)

Everything after the line `<!-- words -->` of a page is replaced.
"""

import argparse
import importlib
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = {"migrate_quark.md": "quark", "migrate_neural_compressor.md": "neural_compressor", "migrate_onnxruntime.md": "onnxruntime"}
MARK = "<!-- words -->\n"


def page_text(page: Path, dialect: str) -> str:
    """The page with its tables as they should be."""
    fates = importlib.import_module("bitpress.compat._fates")
    words = importlib.import_module(f"bitpress.compat.{dialect}._words")
    text = page.read_text(encoding="utf-8")
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise SystemExit(f"{page}: there is no line {MARK.strip()}")
    lines = ["", *fates.counts(words.TABLES)]
    for title, table in words.TABLES.items():
        lines += ["", f"### {title}", "", *fates.markdown(table)]
    return head + mark + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tables of fates.")
    parser.add_argument("--package", type=Path, required=True, help="the folder with the package bitpress")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.package.resolve()))
    stale = []
    for name, dialect in PAGES.items():
        text = page_text(DOCS / name, dialect)
        if text != (DOCS / name).read_text(encoding="utf-8"):
            stale.append(name)
            if not arguments.check:
                (DOCS / name).write_text(text, encoding="utf-8")
    if arguments.check and stale:
        print(f"not up to date: {', '.join(stale)}; run tools/make_migration_tables.py", file=sys.stderr)
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

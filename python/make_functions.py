#!/usr/bin/env python3
"""Writes the module with the functions that take the options of quantize, as the library lists them.

    python python/make_functions.py python/quantize.py.in OUTPUT --modules FOLDER_OF_THE_NATIVE_MODULE

In the template, @signature:all@ becomes parameters, @values:all@ the items of a dict, and @meanings:all@ lines of a docstring;
`steps` leaves out the options of the written model.
"""

import argparse
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, List

WIDTH = 132


def filled(items: List[str], indent: int) -> str:
    """Items in lines of the code's width; the first one goes on where it stands."""
    whole = " ".join(item.replace(" ", "\0") for item in items)
    lines = textwrap.wrap(whole, WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines).replace("\0", " ")


def expanded(template: str, options: List[Any]) -> str:
    def replaced(match: "re.Match[str]") -> str:
        before, what, which = match.groups()
        chosen = [option for option in options if which == "all" or not option.is_of_writing]
        if what == "signature":
            indent = template.rindex("\ndef ", 0, match.start()) + 1
            indent = template.index("(", indent) + 1 - indent
            return before.rstrip() + "\n" + " " * indent + filled([f"{option.key}: {option.type} = {option.default}," for option in chosen], indent)
        if what == "values":
            return before + filled([f'"{option.key}": {option.key},' for option in chosen], len(before))
        indent = len(before)
        return "\n".join(textwrap.fill(f"{option.key}: {option.meaning}.", WIDTH, initial_indent=before, subsequent_indent=" " * (indent + 4),
                                       break_long_words=False, break_on_hyphens=False) for option in chosen)

    return re.sub(r"^(.*)@(signature|values|meanings):(all|steps)@", replaced, template, flags=re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the functions that take the options of quantize.")
    parser.add_argument("template", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--modules", type=Path, required=True)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.modules))
    import _native  # type: ignore[import-not-found]

    text = expanded(arguments.template.read_text(encoding="utf-8"), _native.list_options())
    arguments.output.unlink(missing_ok=True)  # an earlier build had a link to a source there
    arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

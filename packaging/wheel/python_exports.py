"""python_exports.py SOURCES DLL: writes the names that a library of Python for Windows exports, as a .def file, to standard output.

SOURCES is what sources.sh kept of CPython's. python3.dll exports the stable ABI, which PC/python3dll.c lists; python311.dll what the
headers declare with PyAPI_FUNC and PyAPI_DATA, which mean just that. The import library made from it names no more than these.
"""

import re
import sys
from pathlib import Path


def main() -> None:
    sources, library = Path(sys.argv[1]), sys.argv[2]
    if library == "python3.dll":
        texts, pattern = [sources / "python3dll.c"], r"^EXPORT_(FUNC|DATA)\((\w+)\)"
    else:
        texts, pattern = sorted((sources / "include").rglob("*.h")), r"\bPyAPI_(FUNC|DATA)\([^)]*\)\s*\**(\w+)"
    found = {name: kind for path in texts for kind, name in re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)}
    print(f"LIBRARY {library}\nEXPORTS")
    for name, kind in sorted(found.items()):
        print(f"  {name}{' DATA' if kind == 'DATA' else ''}")


if __name__ == "__main__":
    main()

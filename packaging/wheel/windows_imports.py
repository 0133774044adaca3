"""windows_imports.py FILE...: fails if a wheel, a program or a library for Windows needs more than every Windows 10 has.

That is the kernel's library, the universal C runtime, and for a module its Python. Each file's libraries are printed.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ALLOWED = r"kernel32\.dll|api-ms-win-crt-[a-z0-9-]+\.dll"
PYTHON = {"_native.pyd": r"python3\.dll", "_native.cp311-win_amd64.pyd": r"python311\.dll"}


def imports(path: Path) -> "list[str]":
    """The libraries that a program or library loads, as GNU's objdump reads them."""
    text = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"DLL Name: (\S+)", text)


def check(path: Path) -> bool:
    found = imports(path)
    allowed = "|".join([ALLOWED, *([PYTHON[path.name]] if path.name in PYTHON else [])])
    wrong = [name for name in found if not re.fullmatch(allowed, name.lower())]
    print(f"{path.name}: {', '.join(found)}")
    if wrong or not found:
        print(f"error: {path.name} needs {', '.join(wrong) or 'nothing, which cannot be'}", file=sys.stderr)
    return bool(found) and not wrong


def main() -> int:
    good = True
    for path in map(Path, sys.argv[1:]):
        if path.suffix != ".whl":
            good &= check(path)
            continue
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if name.endswith((".exe", ".dll", ".pyd"))]
            if len(names) != 3:
                print(f"error: {path.name} has {names}, expected a program, a library and a module", file=sys.stderr)
                good = False
            for name in names:
                good &= check(Path(wheel.extract(name, folder)))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""windows_imports.py FILE...: fails if a wheel, a program or a library for Windows needs more than every Windows 10 has.

That is the kernel's library and the universal C runtime; for a program or module also SHELL32, which splits the command line, and
ADVAPI32, from which libzip takes random numbers; for a module its Python. The libraries of each file are printed.
"""

import re
import struct
import sys
import tempfile
import zipfile
from pathlib import Path

ALLOWED = r"kernel32\.dll|api-ms-win-crt-[a-z0-9-]+\.dll"
PROGRAM = r"shell32\.dll|advapi32\.dll"
PYTHON = {"_native.pyd": r"python3\.dll", "_native.cp311-win_amd64.pyd": r"python311\.dll"}


def imports(path: Path) -> "list[str]":
    """The libraries that a program or library loads: the names in its import table and in that of imports that wait for a first call."""
    data = path.read_bytes()
    header = struct.unpack_from("<I", data, 0x3C)[0] + 4  # behind the signature PE
    num_sections, optional_bytes = struct.unpack_from("<H", data, header + 2)[0], struct.unpack_from("<H", data, header + 16)[0]
    sections = [struct.unpack_from("<4I", data, header + 20 + optional_bytes + 40 * i + 8) for i in range(num_sections)]

    def offset(address: int) -> int:
        """Where in the file that is which has this address in memory."""
        return next(address - start + raw for size, start, _, raw in sections if start <= address < start + size)

    found = []
    # The two tables have entries of 20 and 32 bytes, in which the address of the name is the fourth or the second number.
    for number, entry_bytes, position in ((1, 20, 12), (13, 32, 4)):
        table = struct.unpack_from("<I", data, header + 20 + 112 + 8 * number)[0]
        entry = offset(table) if table else None
        while entry and (name := struct.unpack_from("<I", data, entry + position)[0]):
            found.append(data[offset(name):].split(b"\0", 1)[0].decode())
            entry += entry_bytes
    return found


def check(path: Path) -> bool:
    found = imports(path)
    allowed = "|".join([ALLOWED, *([] if path.name == "bitpress_ops.dll" else [PROGRAM]), *([PYTHON[path.name]] if path.name in PYTHON else [])])
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

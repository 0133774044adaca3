#!/usr/bin/env python3
"""Makes a copy of the installed ONNX Runtime that asks narrow_cpu.cc which processor it runs on, for tests of the kernels that
processors without VNNI have.

    make_runtime.py OUT

OUT/site/onnxruntime is the Python package, OUT/libonnxruntime.so.1 the library that it ships for other programs. Files that
need no change are hard links where the file system has them. needs: objdump (binutils)
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

CPUID, TRAP = b"\x0f\xa2", b"\xcc\x90"


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def sections(library):
    """(address, offset in the file, size) of what holds code."""
    lines = subprocess.run(["objdump", "-h", library], capture_output=True, text=True, check=True).stdout.splitlines()
    for line, flags in zip(lines, lines[1:]):
        if "CODE" in flags:
            _, _, size, address, _, offset, _ = line.split()[:7]
            yield int(address, 16), int(offset, 16), int(size, 16)


def hide_processor(library):
    """Replaces every cpuid of a library by a trap. Only whole instructions count: the two bytes occur inside others, too."""
    code = list(sections(library))
    data = bytearray(library.read_bytes())
    listing = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", library], stdout=subprocess.PIPE, text=True)
    num_found = 0
    for line in listing.stdout:
        if not line.rstrip().endswith("\tcpuid"):
            continue
        address = int(line.split(":")[0], 16)
        offset = next(address - start + at for start, at, size in code if start <= address < start + size)
        if data[offset:offset + 2] != CPUID:
            raise SystemExit(f"make_runtime.py: no cpuid at {address:#x} of {library}")
        data[offset:offset + 2] = TRAP
        num_found += 1
    if listing.wait() != 0 or num_found == 0:
        raise SystemExit(f"make_runtime.py: objdump found no cpuid in {library}")
    library.unlink()  # it may be a hard link of the real one
    library.write_bytes(data)


def main():
    out = Path(sys.argv[1])
    package = Path(importlib.util.find_spec("onnxruntime").origin).parent
    shutil.rmtree(out / "site", ignore_errors=True)
    shutil.copytree(package, out / "site" / "onnxruntime", copy_function=link_or_copy, ignore=shutil.ignore_patterns("__pycache__"))
    capi = out / "site" / "onnxruntime" / "capi"
    for pattern in ("onnxruntime_pybind11_state*.so", "libonnxruntime.so.1*"):
        for library in capi.glob(pattern):
            hide_processor(library)
    link = out / "libonnxruntime.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(next(capi.glob("libonnxruntime.so.1*")))


main()

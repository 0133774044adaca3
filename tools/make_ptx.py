#!/usr/bin/env python3
"""Makes the PTX of src/cuda/*.cu with Clang 14, which needs nothing of NVIDIA for that.

    python tools/make_ptx.py [--check]

Clang 14 writes PTX 7.0, which drivers since CUDA 11.0 read; later Clangs write later versions. --check compares with the files
instead, and ends with 77 where there is no such compiler.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src/cuda").glob("*.cu"))
OPTIONS = ["-x", "cuda", "-std=c++20", "-nocudainc", "-nocudalib", "--cuda-device-only", "--cuda-gpu-arch=sm_75", "-Xclang",
           "-target-feature", "-Xclang", "+ptx70", "-ffp-contract=off", "-Wno-unknown-cuda-version", "-Wno-pass-failed", "-Wall",
           "-Wextra", "-Werror", "-O2", "-fno-unroll-loops", f"-I{ROOT / 'src'}", "-S", "-o", "-"]
SKIPPED = 77


def compiler():
    """Clang 14, or None."""
    for name in ("clang++-14", "clang++"):
        program = shutil.which(name)
        if program and re.search(r"version 14\.", subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout):
            return program
    return None


def make(program, source):
    """The kernels without comments, blank lines and long names, which the library would carry along."""
    text = subprocess.run([program, *OPTIONS, str(source)], capture_output=True, text=True, check=True).stdout
    lines = []
    for line in re.sub(r"//.*", "", text).splitlines():
        line = re.sub(r"\s+", " ", line).strip()
        if line:
            lines.append(re.sub(r"\w+_param_0\b", "p", re.sub(r"\bLBB(\d+_\d+)\b", r"B\1", line)))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    program = compiler()
    if program is None:
        print("tools/make_ptx.py: there is no Clang 14 (clang++-14)", file=sys.stderr)
        sys.exit(SKIPPED if arguments.check else 1)
    for source in SOURCES:
        made, target = make(program, source), source.with_suffix(".ptx")
        if not arguments.check:
            target.write_text(made, encoding="utf-8")
        elif not target.is_file() or made != target.read_text(encoding="utf-8"):
            sys.exit(f"{target.relative_to(ROOT)} is not what {source.name} gives: run tools/make_ptx.py")


if __name__ == "__main__":
    main()

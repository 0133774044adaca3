#!/usr/bin/env python3
"""Builds what tests need and runs them: `./dev test` and `.ci/run` call this.

    python tests/run.py [--stage quick|whole|all] [--build-dir DIR] [--jobs N] [NAME...]

A NAME is a room (`plan`, or `src/plan` where a file has that name, too): its unit tests; a Python test file with or without its
folder (`search`, `e2e/search`); a folder of tests (`python`); or one test (`e2e/search_test.py::test_name`). The stages are
explained in docs/development.md.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
FOLDERS = ("cli", "cuda", "e2e", "golden", "llm", "no_vnni", "portable", "python", "tour", "windows")
# What Python tests start or load. The other files of a build are tests of rooms and benchmarks.
PYTHON_TARGETS = {"": ["bitpress_test_cli"], "python": ["bitpress_python_stub"], "tour": ["bitpress_python_stub"],
                  "llm": ["bitpress_python_stub"], "portable": ["add_portable_functions"], "golden": ["choose_ranges"],
                  "no_vnni": ["no_vnni_programs"], "cuda": ["cuda_device_check", "cuda_pretended_driver"]}
SLOWEST = 10


class Selection:
    """What the names of a command line mean: unit test programs, and arguments of pytest."""

    def __init__(self, names):
        self.units, self.files = [], []
        for name in names:
            found = self._find(name)
            if not found:
                sys.exit(f"tests/run.py: '{name}' is neither a room with tests nor a test file")
        self.is_all = not names

    def _find(self, name):
        stem, _, rest = name.partition("::")
        stem = stem.removeprefix("tests/").removesuffix(".py").removesuffix("_test")
        before = len(self.units), len(self.files)
        room = stem.removeprefix("src/")
        if (ROOT / "src" / room / "CMakeLists.txt").is_file() and not rest:
            self.units.append(f"{room}_test")
        paths = [TESTS / stem] if stem in FOLDERS else sorted(TESTS.rglob(f"{stem}_test.py"))
        self.files += [str(path.relative_to(TESTS)) + (f"::{rest}" if rest else "") for path in paths if path.exists()]
        return before != (len(self.units), len(self.files))


class Stages:
    """Runs commands, remembers how long each took and which failed."""

    def __init__(self):
        self.minutes, self.failed = [], []

    def run(self, what, command, environment=None, accepted=(0,)):
        print(f"== {what}", flush=True)
        start = time.monotonic()
        code = subprocess.run([str(word) for word in command], cwd=TESTS, env=environment, check=False).returncode
        self.minutes.append((what, (time.monotonic() - start) / 60))
        if code not in accepted:
            self.failed.append(what)
        return code in accepted


def durations(reports):
    """Returns (seconds, test) of all tests in JUnit files, a unit test program being one test."""
    found = []
    for report in reports:
        if not report.is_file():
            continue
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            where = (case.get("classname") or "").replace(".", "/")
            found.append((float(case.get("time") or 0), case.get("name") if where == case.get("name") else f"{where}::{case.get('name')}"))
    return sorted(found, reverse=True)


def can_hide_vnni(build):
    return "no_vnni_programs" in (build / "build.ninja").read_text(encoding="utf-8")


def without_vnni(build):
    """Returns the environment of a process whose ONNX Runtime sees no VNNI."""
    folder = build / "tests" / "no_vnni"
    path = os.pathsep.join(filter(None, [str(folder / "site"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "BITPRESS_BUILD_DIR": str(build), "BITPRESS_NO_VNNI": "1", "PYTHONPATH": path,
            "LD_PRELOAD": str(folder / "narrow_cpu.so")}


def targets(selection, stage, build):
    """Returns the CMake targets that the tests need; none: all."""
    if selection.is_all and stage != "quick":
        return []
    wanted = ["unit_tests"] if selection.is_all else list(selection.units)
    folders = set(PYTHON_TARGETS) if selection.is_all else {"", *(name.split("/")[0] for name in selection.files)}
    if selection.is_all or selection.files:
        for folder in sorted(folders & set(PYTHON_TARGETS)):
            if folder != "no_vnni" or can_hide_vnni(build):
                wanted += PYTHON_TARGETS[folder]
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=("quick", "whole", "all"), default="whole")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    build, jobs = arguments.build_dir.resolve(), str(arguments.jobs)
    selection, stages = Selection(arguments.names), Stages()
    stage = arguments.stage if selection.is_all or arguments.stage == "quick" else "all"

    wanted = targets(selection, stage, build)
    if not stages.run("building", ["cmake", "--build", build, "-j", jobs, *(["--target", *wanted] if wanted else [])]):
        return 1
    reports = [build / "unit_tests.xml", build / "python_tests.xml", build / "python_tests_no_vnni.xml"]
    for report in reports:
        report.unlink(missing_ok=True)
    ctest = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-j", jobs, "--output-junit", reports[0]]
    if selection.is_all or selection.units:
        choice = [] if selection.is_all else ["-R", f"^({'|'.join(map(re.escape, selection.units))})$"]
        stages.run("unit tests", [*ctest, *choice, *(["-LE", "whole"] if stage == "quick" else [])],
                   {**os.environ, **({"GTEST_FILTER": "-*Whole*"} if stage == "quick" else {})})
    pytest = [sys.executable, "-B", "-m", "pytest", "-q", "-n", jobs, "--dist", "loadfile", "--stage", stage]
    environment = {**os.environ, "BITPRESS_BUILD_DIR": str(build)}
    if selection.is_all or selection.files:
        none = (0,) if selection.is_all else (0, 5)  # 5: no such test in this stage
        stages.run("Python tests", [*pytest, f"--junit-xml={reports[1]}", *(selection.files or ["."])], environment, none)
    if selection.is_all and stage != "quick" and can_hide_vnni(build):
        # Tests of integers run again with an ONNX Runtime that sees no VNNI, where this machine can do that.
        stages.run("Python tests of integers, without VNNI", [*pytest, "-m", "integers", f"--junit-xml={reports[2]}", "."],
                   without_vnni(build))
    print(f"== the {SLOWEST} slowest tests")
    for seconds, name in durations(reports)[:SLOWEST]:
        print(f"{seconds:8.1f} s  {name}")
    print("== minutes: " + ", ".join(f"{what} {minutes:.1f}" for what, minutes in stages.minutes))
    if stages.failed:
        print(f"== FAILED: {', '.join(stages.failed)}")
    return 1 if stages.failed else 0


if __name__ == "__main__":
    sys.exit(main())

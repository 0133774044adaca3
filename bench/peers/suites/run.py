#!/usr/bin/env python3
"""Runs a peer's own test suite with Bitpress in the peer's place, and sorts the tests by what came of them.

    .deps/venv/bin/python bench/peers/suites/run.py neural_compressor FOLDER      # a checkout's test/
    .deps/venv/bin/python bench/peers/suites/run.py onnxruntime FOLDER            # a checkout's onnxruntime/test/python/quantization/

The suite is a folder on this machine; nothing is fetched. Only the process that runs it sees our package under the peer's name.
Each test passed, is not applicable (it is about private functions or names of nodes, or never calls the package), differs in a way that
reasons.json documents, or differs in a way that nobody has written down yet. The exit status is 1 if there are any of the last.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Tuple

HERE = Path(__file__).resolve().parent
PEERS = ("neural_compressor", "onnxruntime")
PASSED, NOT_APPLICABLE, DOCUMENTED, UNDOCUMENTED = "passed", "not applicable", "documented difference", "undocumented difference"


def run_suite(peer: str, folder: Path, package: Path, extra: List[str]) -> List[Dict[str, Any]]:
    """What plugin.py writes of each test."""
    with tempfile.TemporaryDirectory(prefix="bitpress-suite-") as work:
        results = Path(work) / "results.json"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(HERE)]), "PYTHONDONTWRITEBYTECODE": "1",
                       "BITPRESS_SUITE_PEER": peer, "BITPRESS_SUITE_FOLDER": str(folder), "BITPRESS_SUITE_RESULTS": str(results)}
        command = [sys.executable, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-q", "--no-header", "--continue-on-collection-errors", "--tb=no", "-W", "ignore",
                   "-o", "addopts=", "--rootdir", str(folder), "-c", os.devnull, *extra, str(folder)]
        cwd = Path(work) / "cwd"  # suites write files where they are
        cwd.mkdir()
        subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL, check=False)
        if not results.is_file():
            raise SystemExit(f"the suite did not run: {' '.join(command)}")
        found: List[Dict[str, Any]] = json.loads(results.read_text(encoding="utf-8"))
    return found


def fate(test: Dict[str, Any], reasons: List[Dict[str, str]]) -> Tuple[str, str]:
    """The kind of a test's result, and why."""
    if test["outcome"] == "skipped":
        return NOT_APPLICABLE, "the suite skips it"
    if test["private"]:
        return NOT_APPLICABLE, "it is about private functions"
    if test["outcome"] == "passed":
        return (PASSED, "") if test["is_ours"] else (NOT_APPLICABLE, "it never calls the package")
    if not test["is_ours"] and "importing the file" not in test["error"]:
        return NOT_APPLICABLE, "it never calls the package"
    for reason in reasons:
        if re.search(reason.get("test", ""), test["test"]) and re.search(reason.get("error", ""), test["error"]):
            return reason["kind"], reason["why"]
    return UNDOCUMENTED, test["error"]


def print_table(tests: List[Tuple[str, str, str]]) -> None:
    counts = Counter(kind for _, kind, _ in tests)
    for kind in (PASSED, NOT_APPLICABLE, DOCUMENTED, UNDOCUMENTED):
        print(f"{counts[kind]:5} {kind}")
        for why, number in Counter(why for _, of, why in tests if of == kind and kind in (NOT_APPLICABLE, DOCUMENTED)).most_common():
            print(f"        {number:4} {why}")
    print(f"{len(tests):5} tests")
    for name, kind, why in tests:
        if kind == UNDOCUMENTED:
            print(f"  {name}\n      {why[:400]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a peer's test suite with Bitpress in its place.")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path, help="the folder with the suite")
    parser.add_argument("--package", type=Path, default=HERE.parents[2] / "build" / "python", help="the folder with the package bitpress")
    parser.add_argument("--reasons", type=Path, default=HERE / "reasons.json", help="what is not applicable or documented, and why")
    parser.add_argument("--json", type=Path, help="also write what came of each test")
    parser.add_argument("-k", default="", help="only tests whose names match, as pytest has it")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"there is no folder '{arguments.folder}'")
    reasons = json.loads(arguments.reasons.read_text(encoding="utf-8"))[arguments.peer]
    found = run_suite(arguments.peer, arguments.folder.resolve(), arguments.package.resolve(), ["-k", arguments.k] if arguments.k else [])
    tests = [(test["test"], *fate(test, reasons)) for test in found]
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([{"test": name, "kind": kind, "why": why} for name, kind, why in tests], indent=1), encoding="utf-8")
    print_table(tests)
    return 1 if any(kind == UNDOCUMENTED for _, kind, _ in tests) else 0


if __name__ == "__main__":
    sys.exit(main())

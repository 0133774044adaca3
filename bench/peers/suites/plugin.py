"""A plugin of pytest: puts Bitpress in a peer's place for this process, and writes what came of each test.

Names of the peer that Bitpress does not have are stand-ins: a test that uses one is about private functions.
"""

import ast
import importlib
import json
import os
import sys
from pathlib import Path

import standins
from standins import PrivateName

_PEER = os.environ["BITPRESS_SUITE_PEER"]
_FOLDER = Path(os.environ["BITPRESS_SUITE_FOLDER"])
_RESULTS = Path(os.environ["BITPRESS_SUITE_RESULTS"])
_RANK = {"passed": 0, "skipped": 1, "failed": 2}
tests = {}  # by the test's name
calls = []  # of our package, while a test runs


def counted(module, name):
    """Replaces a function by one that notes its calls."""
    function = getattr(module, name)

    def call(*arguments, **options):
        calls.append(name)
        return function(*arguments, **options)

    setattr(module, name, call)


def pytest_configure(config):
    standins.install()
    if _PEER == "neural_compressor":
        for name in ("_fates", "neural_compressor._checks"):
            counted(importlib.import_module(f"bitpress.compat.{name}"), "check")
        standins.alias("bitpress.compat.neural_compressor", "onnx_neural_compressor")
    else:
        counted(importlib.import_module("bitpress.compat._fates"), "check")
        importlib.import_module("onnxruntime_layer").install()


def _statement(excinfo, folder):
    """The last line of the suite's own files on the way to an error."""
    lines = [str(entry.statement).strip() for entry in excinfo.traceback if str(entry.path).startswith(str(folder))]
    return lines[-1] if lines else ""


def _note(name, outcome, error="", private=False, is_ours=False):
    known = tests.setdefault(name, {"test": name, "outcome": "passed", "error": "", "private": False, "is_ours": False})
    if _RANK[outcome] > _RANK[known["outcome"]]:
        known.update(outcome=outcome, error=error)
    known["private"] |= private
    known["is_ours"] |= is_ours


def pytest_runtest_setup(item):
    calls.clear()


def pytest_runtest_makereport(item, call):
    outcome, error, private = "passed", "", False
    if call.excinfo is not None:
        skipped = call.excinfo.typename in ("Skipped", "SkipTest")
        outcome = "skipped" if skipped else "failed"
        error = " ".join(f"{_statement(call.excinfo, _FOLDER)} | {call.excinfo.typename}: {call.excinfo.value}".split())
        private = call.excinfo.errisinstance(PrivateName) or PrivateName.__name__ in error
    _note(item.nodeid, outcome, error, private, bool(calls))


def _tests_of(path):
    """The names of the tests in a file that cannot be imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test"))
    return [function.name for function in functions]


def pytest_collectreport(report):
    if report.failed:
        error = str(report.longrepr)
        last = next((line.strip(" E") for line in reversed(error.splitlines()) if "Error" in line or PrivateName.__name__ in line), error[-500:])
        for name in _tests_of(_FOLDER / report.nodeid):
            _note(f"{report.nodeid}::{name}", "failed", f"importing the file | {last}", PrivateName.__name__ in error)


def pytest_sessionfinish(session):
    _RESULTS.write_text(json.dumps(list(tests.values())), encoding="utf-8")
    sys.stdout.flush()

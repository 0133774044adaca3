"""Fixtures for the programs and libraries of the build that the Python tests run."""

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile

import pytest
from locations import PACKAGE, built, from_environment, is_sanitized, shared_dir

sys.path.insert(0, str(PACKAGE))

OTHER_PROGRAM = "BITPRESS_PROGRAM" in os.environ
LONG = {"browser", "corpus", "kills", "large", "scripts", "tasks", "wheel", "windows"}  # markers, see pytest.ini


def pytest_addoption(parser):
    parser.addoption("--stage", choices=("quick", "whole", "all"), default="all",
                     help="quick: what is marked so; whole: without what takes long; all (default)")


def pytest_collection_modifyitems(config, items):
    stage = config.getoption("--stage")

    def is_wanted(item):
        marks = {mark.name for mark in item.iter_markers()}
        return {"quick": "quick" in marks, "whole": not marks & LONG, "all": True}[stage]

    left_out = [item for item in items if not is_wanted(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if is_wanted(item)]


@pytest.fixture(scope="session")
def program():
    """The program of the build, or another one that is to pass the same tests, such as one for Windows (./dev windows)."""
    return from_environment("BITPRESS_PROGRAM", built("bitpress"))


@pytest.fixture(scope="session")
def operator_library():
    return built("libbitpress_ops.so")


@pytest.fixture(scope="session")
def shared():
    folder = shared_dir()
    if folder is None:
        pytest.skip("the development data (BITPRESS_SHARED_DIR) is not on this machine")
    return folder


class Bitpress:
    """Runs the command line as a function of this process, which costs less than starting a program for each command.

    Models are written unchecked (`--check off`), because the check costs several times the command; `checking` is the same
    command line with its default, for tests that are about what the check says. `quantize` says everything (`--verbose`);
    `terse` is its default. Tests that are about the process itself (its signals, standard streams, environment, memory) start
    `program`. A crash is reported by pytest-xdist, with the test's name.
    """

    WRITE_MODELS = ("auto", "autotune", "optimize", "quantize", "unpack")

    def __init__(self, run_cli, checks=False, is_terse=False):
        self._run_cli, self._checks, self._is_terse = run_cli, checks, is_terse

    @property
    def checking(self):
        return Bitpress(self._run_cli, checks=True, is_terse=self._is_terse)

    @property
    def terse(self):
        return Bitpress(self._run_cli, checks=True, is_terse=True)

    def run(self, *arguments):
        words = [str(word) for word in arguments]
        if not self._checks and words[0] in self.WRITE_MODELS and "--check" not in words:
            words += ["--check", "off"]
        if not self._is_terse and words[0] == "quantize":
            words += ["--verbose"]
        return self._run_cli(words)

    def ok(self, *arguments):
        """Returns the standard output of a run that must succeed."""
        result = self.run(*arguments)
        assert result.returncode == 0, f"{arguments}: exit code {result.returncode}\n{result.stderr}"
        return result.stdout

    def error(self, *arguments):
        """Returns the line on standard error of a run that must fail with one line there."""
        result = self.run(*arguments)
        assert result.returncode != 0, f"{arguments}: no error\n{result.stdout}"
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1, f"{arguments}: expected one line of error, got {len(lines)}:\n{result.stderr}"
        assert "terminate called" not in lines[0] and "Sanitizer" not in lines[0]
        return lines[0]


@contextlib.contextmanager
def captured(descriptor):
    """Collects what the process writes to a file descriptor, in a file that is yielded."""
    with tempfile.TemporaryFile() as file:
        saved = os.dup(descriptor)
        os.dup2(file.fileno(), descriptor)
        try:
            yield file
        finally:
            os.dup2(saved, descriptor)
            os.close(saved)


def run_in_process(library):
    """Returns run(words) that calls the command line in this process."""
    function = ctypes.CDLL(str(library)).BitpressRunCli

    def run(words):
        arguments = [b"bitpress", *map(os.fsencode, words)]
        texts = {}
        with captured(1) as output, captured(2) as errors:
            code = function(len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None))
            for name, file in (("stdout", output), ("stderr", errors)):
                file.seek(0)
                texts[name] = file.read().decode(errors="replace")
        return subprocess.CompletedProcess(words, code, **texts)
    return run


def run_program(path):
    """Returns run(words) that starts the program; every run must end by itself, without a signal."""
    def run(words):
        result = subprocess.run([str(path), *words], capture_output=True, text=True, errors="replace", timeout=300, check=False,
                                stdin=subprocess.DEVNULL)
        assert result.returncode >= 0, f"{words}: killed by signal {-result.returncode}\n{result.stderr}"
        return result
    return run


@pytest.fixture(scope="session")
def bitpress(program):
    return Bitpress(run_program(program) if is_sanitized() or OTHER_PROGRAM else run_in_process(built("libbitpress_test_cli.so")))


@pytest.fixture(scope="session")
def bitpress_process(program):
    """The command line as a program of its own, with its checks, for what could end the process."""
    return Bitpress(run_program(program), checks=True)


@pytest.fixture
def sessions(operator_library):
    """Sessions of a model: with the operators, and without."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    def make(path):
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(str(operator_library))
        return [onnxruntime.InferenceSession(str(path), given, providers=["CPUExecutionProvider"])
                for given in (options, onnxruntime.SessionOptions())]
    return make

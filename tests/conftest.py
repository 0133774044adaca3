"""Fixtures for the programs and libraries of the build that the Python tests run."""

import subprocess

import pytest
from locations import ROOT, from_environment, shared_dir


SKIPPED = 77  # for ctest


def pytest_sessionfinish(session, exitstatus):
    """A run of which every test was skipped did not pass."""
    counts = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus == 0 and counts.get("skipped") and not counts.get("passed"):
        session.exitstatus = SKIPPED


@pytest.fixture(scope="session")
def program():
    path = from_environment("BITPRESS_PROGRAM", ROOT / "build" / "bitpress")
    assert path.is_file(), f"{path} is not built"
    return path


@pytest.fixture(scope="session")
def operator_library():
    path = from_environment("BITPRESS_OPERATOR_LIBRARY", ROOT / "build" / "libbitpress_ops.so")
    assert path.is_file(), f"{path} is not built"
    return path


@pytest.fixture(scope="session")
def shared():
    folder = shared_dir()
    if folder is None:
        pytest.skip("the development data (BITPRESS_SHARED_DIR) is not on this machine")
    return folder


class Bitpress:
    """Runs the command line; every run must end by itself, without a signal."""

    def __init__(self, program):
        self.program = program

    def run(self, *arguments, timeout=120):
        result = subprocess.run([str(self.program), *map(str, arguments)], capture_output=True, text=True, errors="replace",
                                timeout=timeout, check=False, stdin=subprocess.DEVNULL)
        assert result.returncode >= 0, f"{arguments}: killed by signal {-result.returncode}\n{result.stderr}"
        return result

    def ok(self, *arguments, **keywords):
        """A run that must succeed; its standard output."""
        result = self.run(*arguments, **keywords)
        assert result.returncode == 0, f"{arguments}: exit code {result.returncode}\n{result.stderr}"
        return result.stdout

    def error(self, *arguments, **keywords):
        """A run that must fail with one line on standard error; that line."""
        result = self.run(*arguments, **keywords)
        assert result.returncode != 0, f"{arguments}: no error\n{result.stdout}"
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1, f"{arguments}: expected one line of error, got {len(lines)}:\n{result.stderr}"
        assert "terminate called" not in lines[0] and "Sanitizer" not in lines[0]
        return lines[0]


@pytest.fixture(scope="session")
def bitpress(program):
    return Bitpress(program)


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

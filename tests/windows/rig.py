"""Runs programs for Windows under Wine, and a stand-in for the module onnxruntime whose sessions are ONNX Runtime's for Windows."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from locations import ROOT, from_environment
from onnx import helper

HERE = Path(__file__).resolve().parent
WINE = HERE / "wine.sh"
# ./dev windows builds these: the operator library, unit tests, the program, sessions.exe, and ONNX Runtime beside them.
BUILD = from_environment("BITPRESS_WINDOWS_DIR", ROOT / "build" / "cross" / "win_amd64")
# A test file runs this program, made of the sources in these folders. ./dev windows writes the file `complete` when all are made.
NEEDS = {"operators_test": ("bitpress_ops.dll", ("src/base", "src/formats", "src/kernels", "src/custom_ops")),
         "imports_test": ("bitpress.exe", ()), "bytes_test": ("bitpress.exe", ("src", "apps")), "faults_test": ("bitpress.exe", ("src", "apps")),
         "find_package_test": ("bitpress.dll", ("src", "include"))}


@functools.cache
def why_not(test_file):
    """Returns why the tests of a file cannot be run, or None."""
    program, folders = NEEDS[test_file]
    if not shutil.which("wine"):
        return "Wine is not installed: ./dev windows does that"
    missing = [name for name in (program, "sessions.exe", "onnxruntime.dll", "complete") if not (BUILD / name).is_file()]
    if missing:
        return f"the build for Windows has no {missing[0]}: run ./dev windows"
    times = [path.stat().st_mtime for folder in folders for path in (ROOT / folder).rglob("*.[ch]*")
             if not path.stem.endswith("_test") and not path.stem.startswith("test_")]
    if max(times, default=0) > (BUILD / "complete").stat().st_mtime:
        return "the build for Windows is older than the sources: run ./dev windows"
    return None


def run(program, *words, timeout=300, **options):
    """Runs a program of the build, or of a path, under Wine. `options` are those of subprocess.run."""
    command = [WINE, BUILD / program, *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                          stdin=subprocess.DEVNULL, **options)
    # ONNX Runtime looks for graphics cards, of which Wine has none without a screen.
    done.stderr = done.stderr.replace("Failed to create DXGI factory.\n", "")
    return done


class SessionOptions:
    """The options that tests use, and in how many sessions at the same time a model runs."""

    def __init__(self):
        self.intra_op_num_threads, self.log_severity_level, self.sessions, self.library = 1, 3, 1, "-"

    def register_custom_ops_library(self, library):
        self.library = library


class InferenceSession:
    """A model in ONNX Runtime for Windows. Each run is a process of its own, so that a model that does not load fails there."""

    def __init__(self, model, options=None, providers=None):
        assert providers in (None, ["CPUExecutionProvider"])
        self._options = options or SessionOptions()
        self._path = None if isinstance(model, bytes) else Path(model)
        self._bytes = model if self._path is None else None
        self.best_ms = 0.0
        graph = (onnx.load_from_string(model) if self._bytes else onnx.load(model, load_external_data=False)).graph
        self._inputs = [value.name for value in graph.input]

    def run(self, names, inputs, runs=1):
        assert names is None
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            if self._bytes:
                (folder / "model.onnx").write_bytes(self._bytes)
            arrays = {name: np.ascontiguousarray(inputs[name]) for name in self._inputs if name in inputs}
            (folder / "inputs.txt").write_text("".join(
                f"{name} {helper.np_dtype_to_tensor_dtype(array.dtype)} {array.nbytes} {' '.join(map(str, array.shape))}\n"
                for name, array in arrays.items()), encoding="utf-8")
            (folder / "inputs.bin").write_bytes(b"".join(array.tobytes() for array in arrays.values()))
            done = run("sessions.exe", "onnxruntime.dll", self._options.library, self._path or folder / "model.onnx", folder,
                       self._options.intra_op_num_threads or 1, self._options.sessions, runs)
            if done.returncode:
                raise RuntimeError(done.stderr.strip() or f"sessions.exe ended with {done.returncode}")
            self.best_ms = float(done.stdout.split()[-2])
            return read_tensors(folder)


def read_tensors(folder):
    data, arrays = (folder / "outputs.bin").read_bytes(), []
    for line in (folder / "outputs.txt").read_text(encoding="utf-8").splitlines():
        _, element_type, size, *shape = line.split()
        part, data = data[:int(size)], data[int(size):]
        arrays.append(np.frombuffer(part, helper.tensor_dtype_to_np_dtype(int(element_type))).reshape([int(v) for v in shape]))
    assert not data
    return arrays

"""Tests what `import bitpress` loads, its types, and `pip install .` in a fresh virtual environment. The wheel packages the results of
./dev build, so nothing is compiled."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from locations import PACKAGE, ROOT

MOST_WHEEL_BYTES = 20_000_000


def run(*command, **keywords):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=600, **keywords)
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", folder,
        "--config-settings", f"cmake.define.BITPRESS_PREBUILT={PACKAGE.parent}",
        "--config-settings", f"build-dir={folder / 'build'}", ROOT, cwd=folder)
    (path,) = folder.glob("bitpress-*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Returns an interpreter with the wheel installed. Its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    path = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", path, "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = run(path, "-c", "import sysconfig; print(sysconfig.get_path('purelib'), end='')")
    with open(os.path.join(site, "dependencies.pth"), "w", encoding="utf-8") as file:
        file.write(sysconfig.get_path("purelib") + "\n")
    return path


@pytest.mark.wheel
def test_the_wheel_holds_everything_and_is_small(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"bitpress/bitpress", "bitpress/libbitpress_ops.so", "bitpress/py.typed", "bitpress/_native.pyi", "bitpress/_quantize.py", "bitpress/formats.py",
            "bitpress/compat/quark/onnx/quantization/config/config.py", "bitpress/compat/neural_compressor/__init__.py"} <= names
    assert wheel.stat().st_size < MOST_WHEEL_BYTES
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    needed = zipfile.ZipFile(wheel).read(metadata).decode().splitlines()
    # onnxruntime.quantization, which scripts for AMD Quark import, needs onnx.
    required = [line for line in needed if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert {line.split(">=")[0] for line in required} == {
        "Requires-Dist: numpy", "Requires-Dist: onnx", "Requires-Dist: onnxruntime"}
    sources = {str(path.relative_to(ROOT / "python")) for path in (ROOT / "python" / "bitpress").rglob("*.py")}
    assert sources <= names


def test_importing_is_cheap(tmp_path):
    script = "import sys, numpy; before = set(sys.modules); import bitpress; print(*sorted(set(sys.modules) - before))"
    modules = run(sys.executable, "-B", "-c", script, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PACKAGE)}).split()
    assert "bitpress" in modules
    assert not [name for name in modules if name.split(".")[0] in ("onnx", "onnxruntime", "onnx_ir", "torch", "asyncio")]


@pytest.mark.wheel
def test_the_installed_package_quantizes(python, tmp_path, conv_path):
    script = f"""
import json, bitpress, numpy as np, onnxruntime
report = bitpress.quantize({str(conv_path)!r}, "out.onnx", "MX6")
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(bitpress.get_library_path())
session = onnxruntime.InferenceSession("out.onnx", options)
y = session.run(None, {{"image": np.zeros((2, 3, 20, 20), np.float32)}})[0]
from bitpress import _native
print(json.dumps([list(y.shape), bitpress.get_library_path(), _native.onnxruntime_path().as_posix(), onnxruntime.__file__]))
"""
    shape, library, used, installed = json.loads(run(python, "-c", script, cwd=tmp_path))
    assert shape == [2, 10] and str(python.parents[1]) in library
    assert os.path.dirname(used) == os.path.join(os.path.dirname(installed), "capi")


@pytest.mark.wheel
def test_the_installed_program_runs(python, tmp_path, conv_path):
    program = python.parent / "bitpress"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BITPRESS")}
    assert run(program, "--version", env=environment).startswith("bitpress ")
    run(program, "quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", "BF16", env=environment)
    assert "loads and runs" in run(python, "-m", "bitpress", "check", tmp_path / "out.onnx", env=environment)


def test_types_are_strict(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text('''
import bitpress
import numpy as np
from bitpress.compat import neural_compressor, quark

report: bitpress.QuantizeReport = bitpress.quantize("a.onnx", "b.onnx", "MX6", np.zeros((1, 3)), threads=2, weights="mx4")
bits: int = report.output_bytes
array = bitpress.formats.quantize_dequantize(np.zeros(4, np.float32), "mx6", axis=0)
top1: float | None = bitpress.evaluate("b.onnx", "photos", "a.onnx", image="crop=224").top1
quark.ModelQuantizer(quark.QConfig()).quantize_model("a.onnx", "b.onnx")
neural_compressor.quantization.quantize("a.onnx", "b.onnx", neural_compressor.config.RTNConfig(weight_bits=4))
''')
    bad.write_text('import bitpress\nbitpress.quantize("a.onnx", 5)\n')
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--cache-dir", tmp_path / "cache", good, bad,
               PACKAGE / "bitpress"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(PACKAGE)})
    errors = [line for line in result.stdout.splitlines() if ": error: " in line]
    assert [line.partition(":")[0] for line in errors] == ["bad.py"] and "[arg-type]" in errors[0], result.stdout + result.stderr

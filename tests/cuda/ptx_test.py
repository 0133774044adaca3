"""The compiled kernels are those of their source, the translator refuses what may give other bits on a device, and the driver's
errors are said. What the kernels compute is tested in src/cuda/."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from locations import built

ROOT = Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "src/cuda/kernels.ptx"


def test_the_compiled_kernels_are_those_of_their_source():
    made = subprocess.run([sys.executable, "-B", ROOT / "tools/make_ptx.py", "--check"], capture_output=True, text=True)
    if made.returncode == 77:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr


def translate(tmp_path, text):
    ptx = tmp_path / "kernels.ptx"
    ptx.write_text(text)
    return subprocess.run([sys.executable, "-B", ROOT / "tools/ptx_to_cc.py", ptx, tmp_path / "kernels.cc"], capture_output=True, text=True)


@pytest.mark.quick
@pytest.mark.parametrize(("find", "replacement", "reason"), [
    ("add.rn.f32", "add.f32", "may be fused"),
    ("mul.rn.f64", "mul.f64", "may be fused"),
    ("sub.rn.f32", "sub.rn.ftz.f32", "flushes or approximates"),
    ("div.rn.f32", "div.approx.f32", "flushes or approximates"),
    ("shfl.sync.bfly.b32", "@%p1 shfl.sync.bfly.b32", "guarded meeting"),
    ("abs.f64", "sin.f64", "unknown instruction"),
    ("ld.global.u16", "ld.global.nc.u16", "unknown load"),
])
def test_refused(tmp_path, find, replacement, reason):
    text = KERNELS.read_text()
    assert find in text
    translated = translate(tmp_path, text.replace(find, replacement, 1))
    assert translated.returncode == 1 and reason in translated.stderr


def test_the_kernels_are_translated(tmp_path):
    assert translate(tmp_path, KERNELS.read_text()).returncode == 0


def check(driver, **environment):
    """Runs the program for a GPU with a driver that pretends to have one, or with none."""
    folder = str(built("pretended/libcuda.so.1").parent) if driver else ""
    return subprocess.run([built("cuda_device_check"), "--small", "--time-only"], capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": folder, **environment})


def test_no_driver():
    try:
        import ctypes
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("this machine has a CUDA driver")
    except OSError:
        pass
    run = check(False)
    assert run.returncode == 77 and "there is no CUDA driver" in run.stdout


@pytest.mark.parametrize(("environment", "said"), [
    ({"PRETENDED_CUDA_VERSION": "11040"}, "the CUDA driver is too old: it is for CUDA 11.4, and 12.0 or later is needed"),
    ({"PRETENDED_CUDA_FAILS": "cuLibraryLoadData"}, "the CUDA driver refuses our kernels: unspecified launch failure (CUDA error 719)"),
    ({"PRETENDED_CUDA_FAILS": "cuLibraryGetKernel"}, "the CUDA driver does not find the kernel bitpress_rows"),
    ({"PRETENDED_CUDA_FAILS": "cuLaunchKernel"}, "the kernel bitpress_rows does not start, or earlier work on the device failed"),
])
def test_errors_of_the_driver(environment, said):
    run = check(True, **environment)
    assert run.returncode == 1 and said in run.stdout


def test_a_session_on_the_cpu_loads_nothing_of_cuda(operator_library):
    # A driver could be found. The process is one of its own: others may have loaded it.
    script = """
import sys
import onnxruntime
from onnx import TensorProto, helper
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 64])
graph = helper.make_graph([helper.make_node("QuantizeDequantize_mx6", ["x"], ["y"], domain="bitpress", axis=1)], "g", [value("x")], [value("y")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("bitpress", 1)], ir_version=9)
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(sys.argv[1])
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
import numpy
session.run(None, {"x": numpy.ones((2, 64), numpy.float32)})
assert "libcuda" not in open("/proc/self/maps").read()
"""
    folder = str(built("pretended/libcuda.so.1").parent)
    run = subprocess.run([sys.executable, "-c", script, operator_library], capture_output=True, text=True,
                         env={**os.environ, "LD_LIBRARY_PATH": folder})
    assert run.returncode == 0, run.stderr

"""Every model that the program writes is loaded and run in a process of its own before it stands in its place. A model that
crashes ONNX Runtime is an error and leaves no file."""

import shutil
import subprocess
import sys

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

# ONNX Runtime 1.31 crashes where a body reads moved elements of a dequantized value: its optimizer puts a pair of quantizers
# before each reader, and an If has no input there.
CRASHES = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 16] x, bool c) => (float[N, 16] y, float[N, 16] z) {
  scale = Constant <value = float {0.5}> ()
  zero = Constant <value = uint8 {128}> ()
  product = MatMul (x, w)
  codes = QuantizeLinear (product, scale, zero)
  values = DequantizeLinear (codes, scale, zero)
  moved = Transpose <perm = [1, 0]> (values)
  z = Tanh (product)
  y = If (c) <
    then_branch = sized () => (float[N, 16] t) { shape = Shape (moved)
      n = Cast <to = 1> (shape)
      total = ReduceSum <keepdims = 0> (n)
      t = Mul (x, total) },
    else_branch = same () => (float[N, 16] s) { s = Tanh (x) }>
}
"""
# The same, where Bitpress puts the quantizers: only Shape reads the moved elements, which need no codes for it.
MOVES = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 8, 16] x, bool c) => (float[N, 8, 16] y, float[N, 8, 16] z) {
  a = Conv (x, w)
  r = Relu (a)
  turned = Transpose <perm = [2, 0, 1]> (r)
  z = Tanh (r)
  y = If (c) <
    then_branch = sized () => (float[N, 8, 16] t) { shape = Shape (turned)
      n = Cast <to = 1> (shape)
      total = ReduceSum <keepdims = 0> (n)
      t = Mul (x, total) },
    else_branch = same () => (float[N, 8, 16] s) { s = Tanh (x) }>
}
"""


def save(text, shape, path):
    model = parser.parse_model(text)
    weight = np.random.default_rng(3).standard_normal(shape) / 4
    model.graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), "w"))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def crashing(tmp_path_factory):
    path = save(CRASHES, (16, 16), tmp_path_factory.mktemp("crashing") / "crashing.onnx")
    code = ("import onnxruntime, sys; o = onnxruntime.SessionOptions(); o.log_severity_level = 3\n"
            "onnxruntime.InferenceSession(sys.argv[1], o, providers=['CPUExecutionProvider'])")
    if subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False).returncode >= 0:
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__} does not crash on this model")
    return path


def test_check_reports_a_crash(crashing, bitpress_process):
    result = bitpress_process.run("check", crashing)
    assert result.returncode == 1
    assert "DOES NOT LOAD" in result.stdout and "loading the model" in result.stdout and "signal 6 (Aborted)" in result.stdout
    assert "does not load" in result.stderr


@pytest.mark.parametrize("options", [(), ("--external-data",)], ids=["one file", "two files"])
def test_a_model_that_crashes_is_not_written(options, crashing, tmp_path, bitpress_process):
    folder = tmp_path / "out"
    folder.mkdir()
    # The pass would make codes of what the body reads.
    arguments = ("quantize", crashing, "-o", folder / "q.onnx", "--config", "MX6", "--disable-pass", "dequantize-in-bodies",
                 "--as-is", *options)
    error = bitpress_process.error(*arguments)
    assert "q.onnx' was not written" in error and "signal 6 (Aborted)" in error and "Assertion" in error
    assert "--check" in error
    assert list(folder.iterdir()) == []
    (folder / "q.onnx").write_bytes(b"an old file")
    bitpress_process.error(*arguments)
    assert [path.name for path in folder.iterdir()] == ["q.onnx"] and (folder / "q.onnx").read_bytes() == b"an old file"
    bitpress_process.ok(*arguments, "--check", "off")
    onnx.checker.check_model(folder / "q.onnx")
    error = bitpress_process.error("unpack", folder / "q.onnx", "-o", folder / "floats.onnx")
    assert "signal 6" in error and not (folder / "floats.onnx").exists()
    bitpress_process.ok("unpack", folder / "q.onnx", "-o", folder / "floats.onnx", "--check", "off")


def test_optimize_says_that_onnx_runtime_crashes(crashing, tmp_path, bitpress_process):
    error = bitpress_process.error("optimize", crashing, "-o", tmp_path / "out.onnx")
    assert "crashing.onnx' crashes ONNX Runtime" in error and "signal 6" in error
    assert not (tmp_path / "out.onnx").exists()


def test_bodies_that_read_moved_elements(tmp_path, bitpress_process):
    model = save(MOVES, (8, 8, 1), tmp_path / "m.onnx")
    samples = tmp_path / "samples"
    samples.mkdir()
    for i in range(4):
        x = np.random.default_rng(i).standard_normal((1, 8, 16)).astype(np.float32)
        np.savez(samples / f"{i}.npz", x=x, c=np.array(i % 2 == 0))
    text = bitpress_process.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "loads and runs" in text
    x = np.random.default_rng(9).standard_normal((3, 8, 16)).astype(np.float32)
    for c in (True, False):
        y, z = onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, {"x": x, "c": np.array(c)})
        expected_y, expected_z = onnxruntime.InferenceSession(model).run(None, {"x": x, "c": np.array(c)})
        np.testing.assert_allclose(z, expected_z, atol=0.1)
        np.testing.assert_allclose(y, expected_y, rtol=1e-6)


def test_a_model_that_loads_no_better_than_before_is_a_warning(tmp_path, bitpress_process):
    model = save(MOVES, (8, 8, 1), tmp_path / "m.onnx")
    proto = onnx.load(model)
    proto.graph.node[1].domain = "my.domain"
    proto.opset_import.append(onnx.helper.make_opsetid("my.domain", 1))
    onnx.save(proto, model)
    text = bitpress_process.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--as-is")
    assert "DOES NOT LOAD" in text and (tmp_path / "q.onnx").exists()
    assert "/proc/" not in text  # the file's name until it is in its place


def test_without_the_program_the_report_says_that_nothing_was_checked(tmp_path, program, operator_library):
    # A program of another name is any user's program that has our library inside.
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(program, alone / "tool")
    shutil.copy(operator_library, alone)
    model = save(MOVES, (8, 8, 1), tmp_path / "m.onnx")
    done = subprocess.run([alone / "tool", "quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6"], capture_output=True,
                          text=True, check=True)
    assert "not checked: the program 'bitpress'" in done.stdout and "loads and runs" not in done.stdout
    onnx.checker.check_model(tmp_path / "q.onnx")


def test_what_quantizing_in_place_removes_is_said_before(bitpress, tmp_path):
    """And data that the old model reads under a new name stay."""
    model = tmp_path / "m.onnx"
    onnx.save(models.matmul_model(), model, save_as_external_data=True, size_threshold=0, location="m.onnx.data")
    result = bitpress.run("quantize", model, "-o", model, "--config", "MX6")
    assert result.returncode == 0 and f"note: '{model}.data'" in result.stderr
    assert not (tmp_path / "m.onnx.data").exists()
    onnx.save(models.matmul_model(), model, save_as_external_data=True, size_threshold=0, location="m.onnx.data")
    (tmp_path / "old.onnx").write_bytes(model.read_bytes())
    result = bitpress.run("quantize", model, "-o", model, "--config", "MX6")
    assert result.returncode == 0 and result.stderr == ""
    onnx.load(tmp_path / "old.onnx")

"""bitpress calibrate and merge write the same bytes however they are run, follow control flow, and refuse damaged files."""

import csv
import re
import struct

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

NUM_SAMPLES = 50

# A model without matrix products, which in ONNX Runtime differ in the last bits between one row and several.
PLAIN = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, 8, 8] x) => (float[N, 10] y) {
  a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
  b = Relu (a)
  c = GlobalAveragePool (b)
  d = Flatten (c)
  y = Gemm (d, m)
}
"""

# Two branches, a loop of three turns and a scan over rows. No sample takes the branch with `never`.
FLOW = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 4] x) => (float[1, 4] y, float[1, 4] z, float[4] w) {
  zero = Constant <value = float {0}> ()
  far = Constant <value = float {1000}> ()
  turns = Constant <value = int64 {3}> ()
  go = Constant <value = bool {1}> ()
  sum = ReduceSum <keepdims = 0> (x)
  is_positive = Greater (sum, zero)
  is_far = Greater (sum, far)
  chosen = If (is_positive) <
    then_branch = yes () => (float[1, 4] up) { twice = Add (x, x)
      up = Relu (twice) },
    else_branch = no () => (float[1, 4] down) { down = Neg (x) }>
  unlikely = If (is_far) <
    then_branch = far_away () => (float[1, 4] s) { never = Exp (x)
      s = Sqrt (never) },
    else_branch = near () => (float[1, 4] t) { t = Identity (chosen) }>
  z = Loop (turns, go, unlikely) <
    body = turn (int64 i, bool on, float[1, 4] state) => (bool still, float[1, 4] next) {
      still = Identity (on)
      next = Add (state, state) }>
  start = Squeeze (z)
  w, rows = Scan <num_scan_inputs = 1, body = row (float[4] total, float[4] one) => (float[4] more, float[4] each) {
      more = Add (total, one)
      each = Identity (one) }> (start, x)
  y = Relu (z)
}
"""


def model_from_text(text, **weights):
    model = parser.parse_model(text)
    for name, value in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value.astype(np.float32), name))
    onnx.checker.check_model(model)
    return model


def save_samples(folder, samples):
    folder.mkdir()
    for i, sample in enumerate(samples):
        np.save(folder / f"{i:03d}.npy", sample.astype(np.float32))
    return folder


def rows_of(bitpress, path):
    """Returns the table that inspect shows, as {value: {column: text}}."""
    lines = bitpress.ok("inspect", path).splitlines()
    columns = re.split(r"\s{2,}|(?<!,) ", lines[1].strip())
    return {line.split()[0]: dict(zip(columns[1:], line.replace(" %", "%").split()[1:])) for line in lines[2:]}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    random = np.random.default_rng(1)
    model = model_from_text(PLAIN, w=random.normal(size=(6, 3, 3, 3)), m=random.normal(size=(6, 10)))
    onnx.save(model, folder / "net.onnx")
    save_samples(folder / "data", random.normal(size=(NUM_SAMPLES, 1, 3, 8, 8)))
    return folder


def calibrate(bitpress, folder, output, *arguments):
    bitpress.ok("calibrate", folder / "net.onnx", "--data", folder / "data", "-o", output, *arguments)
    return output.read_bytes()


@pytest.fixture(scope="module")
def expected(plain, bitpress):
    return calibrate(bitpress, plain, plain / "expected.bpc", "--threads", 1, "--batch", 1)


@pytest.mark.parametrize("threads, batch", [(1, 7), (1, 50), (2, 1), pytest.param(2, 7, marks=pytest.mark.quick)])
def test_bytes_do_not_depend_on_threads_and_batches(plain, expected, bitpress, tmp_path, threads, batch):
    assert calibrate(bitpress, plain, tmp_path / "s.bpc", "--threads", threads, "--batch", batch) == expected


def test_shards_add_up_in_any_order(plain, expected, bitpress, tmp_path):
    parts = {"a": range(0, 17), "b": range(17, 18), "c": range(18, NUM_SAMPLES)}
    for name, indices in parts.items():
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([("file", "class"), *((f"{i:03d}.npy", 0) for i in reversed(indices))])
        calibrate(bitpress, plain, tmp_path / f"{name}.bpc", "--labels", tmp_path / f"{name}.csv")
    for order in ("abc", "cab"):
        bitpress.ok("merge", *(tmp_path / f"{name}.bpc" for name in order), "-o", tmp_path / "all.bpc")
        assert (tmp_path / "all.bpc").read_bytes() == expected


def test_the_first_samples(plain, expected, bitpress, tmp_path):
    some = calibrate(bitpress, plain, tmp_path / "some.bpc", "--samples", 10)
    assert some != expected
    assert "10 samples" in bitpress.ok("inspect", tmp_path / "some.bpc")


@pytest.mark.quick
def test_statistics_are_those_of_the_values(plain, expected, bitpress, run_model):
    rows = rows_of(bitpress, plain / "expected.bpc")
    assert list(rows) == ["a", "b", "c", "d", "x", "y"]
    samples = np.concatenate([np.load(path) for path in sorted((plain / "data").glob("*.npy"))])
    assert int(rows["x"]["elements"]) == samples.size
    for column, value in (("min", samples.min()), ("max", samples.max()), ("mean", samples.mean()), ("std", samples.std())):
        assert float(rows["x"][column]) == pytest.approx(value, rel=1e-3)
    outputs = run_model(plain / "net.onnx", {"x": samples})[0]
    assert float(rows["y"]["max"]) == pytest.approx(outputs.max(), rel=1e-3)
    assert float(rows["b"]["min"]) == 0


def test_only_what_a_configuration_quantizes(plain, bitpress, tmp_path):
    calibrate(bitpress, plain, tmp_path / "s.bpc", "--config", "MXINT8")
    assert list(rows_of(bitpress, tmp_path / "s.bpc")) == ["d", "x"]


def test_bodies_are_watched(bitpress, tmp_path):
    onnx.save(model_from_text(FLOW), tmp_path / "net.onnx")
    random = np.random.default_rng(2)
    samples = np.abs(random.normal(size=(9, 1, 4)))
    samples[6:] *= -1
    save_samples(tmp_path / "data", samples)
    first = calibrate(bitpress, tmp_path, tmp_path / "a.bpc", "--threads", 1)
    assert calibrate(bitpress, tmp_path, tmp_path / "b.bpc", "--threads", 2, "--batch", 4) == first
    rows = rows_of(bitpress, tmp_path / "a.bpc")
    assert int(rows["up"]["elements"]) == 6 * 4 and int(rows["down"]["elements"]) == 3 * 4
    assert float(rows["twice"]["max"]) == pytest.approx(2 * samples.max(), rel=1e-3)
    assert int(rows["state"]["elements"]) == int(rows["next"]["elements"]) == 9 * 3 * 4  # three turns
    assert int(rows["more"]["elements"]) == 9 * 4
    assert rows["never"]["elements"] == "0" and rows["never"]["min"] == "-"
    assert "never computed: 'never'" in bitpress.ok(
        "calibrate", tmp_path / "net.onnx", "--data", tmp_path / "data", "-o", tmp_path / "c.bpc")


def test_nan_and_empty_tensors(bitpress, tmp_path):
    onnx.save(model_from_text("""
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[1, N] x) => (float[1, N] y, float[1, N] z) {
          y = Sqrt (x)
          zero = Sub (x, x)
          z = Div (zero, zero)
        }"""), tmp_path / "net.onnx")
    save_samples(tmp_path / "data", [])
    for i, length in enumerate((3, 1, 0, 7)):  # ragged
        np.save(tmp_path / "data" / f"{i}.npy", np.linspace(-1, 1, length, dtype=np.float32)[None])
    calibrate(bitpress, tmp_path, tmp_path / "s.bpc")
    rows = rows_of(bitpress, tmp_path / "s.bpc")
    assert int(rows["x"]["elements"]) == 11
    assert int(rows["y"]["NaN, inf"]) == 1 + 1 + 3
    assert rows["z"]["min"] == "-" and int(rows["z"]["NaN, inf"]) == 11


def test_half_floats(bitpress, tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["N", 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["N", 5])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "all.npy", np.array([[1, -2, 65504, -0.5, 6e-8]] * 3, np.float16))
    calibrate(bitpress, tmp_path, tmp_path / "s.bpc")
    rows = rows_of(bitpress, tmp_path / "s.bpc")
    assert rows["x"]["elements"] == "15" and float(rows["x"]["max"]) == pytest.approx(65504, rel=1e-3)
    assert rows["y"]["zeros"] == "40%"


def test_what_does_not_belong_together_is_refused(plain, expected, bitpress, tmp_path):
    random = np.random.default_rng(3)
    onnx.save(model_from_text(PLAIN, w=random.normal(size=(6, 3, 3, 3)), m=random.normal(size=(6, 10))), tmp_path / "net.onnx")
    bitpress.ok("calibrate", tmp_path / "net.onnx", "--data", plain / "data", "-o", tmp_path / "other.bpc")
    calibrate(bitpress, plain, tmp_path / "few.bpc", "--config", "MXINT8")
    good = plain / "expected.bpc"
    assert "different models" in bitpress.error("merge", good, tmp_path / "other.bpc", "-o", tmp_path / "all.bpc")
    assert "different configurations" in bitpress.error("merge", good, tmp_path / "few.bpc", "-o", tmp_path / "all.bpc")
    assert "no calibration file" in bitpress.error("merge", good, plain / "net.onnx", "-o", tmp_path / "all.bpc")
    assert not (tmp_path / "all.bpc").exists()


def test_damaged_files_are_refused(expected, bitpress, tmp_path):
    damaged = bytearray(expected)
    damaged[len(damaged) // 2] ^= 4
    for content in (bytes(damaged), expected[: len(expected) // 2], expected[:10], expected + b"\0"):
        (tmp_path / "s.bpc").write_bytes(content)
        assert "damaged" in bitpress.error("inspect", tmp_path / "s.bpc")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def test_a_file_may_have_no_channels(plain, bitpress, tmp_path):
    """A value that never had the axis has no channels. The convolution's weight asks for the three channels of `x`."""
    content = calibrate(bitpress, plain, tmp_path / "s.bpc", "--config", "INT8")[:-4]
    start = struct.pack("<BqB", 1, 1, 3)  # there are slices, across axis 1, three of them
    assert content.count(start) == 1
    at = content.index(start) + len(start)
    content = content[: at - 1] + b"\0" + content[at + 3 * (8 + 8 + 2 * 80):]
    (tmp_path / "s.bpc").write_bytes(content + crc32c(content))
    bitpress.ok("quantize", plain / "net.onnx", "-o", tmp_path / "out.onnx", "--config", "INT8", "--calibration", tmp_path / "s.bpc")


def test_nothing_is_left_behind_by_a_failure(plain, bitpress, tmp_path):
    np.save(tmp_path / "wrong.npy", np.zeros((1, 4, 8, 8), np.float32))
    before = {path.name for path in tmp_path.iterdir()}
    bitpress.error("calibrate", plain / "net.onnx", "--data", tmp_path, "-o", tmp_path / "s.bpc")
    assert "nothing to calibrate" in bitpress.error(
        "calibrate", plain / "net.onnx", "--data", plain / "data", "-o", tmp_path / "s.bpc", "--config", "MXINT8",
        "--activations", "none")
    assert {path.name for path in tmp_path.iterdir()} == before

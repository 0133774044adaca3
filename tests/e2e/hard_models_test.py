"""Models that break other calibrators: branches that never run, tensors without elements, shared weights, NaN, constants in the
place of activations. Such a tensor stays float with its reason, and the rest of the model is quantized."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

NET = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 8] x) => (float[N, 8] y, float[K, 8] z, float[N, 8] v, float[2, 8] u) {
  a = MatMul (x, shared)
  r = Relu (a)
  b = MatMul (r, shared)
  begin = Constant <value = int64[1] {0}> ()
  empty = Slice (b, begin, begin, begin)
  none = Softplus (empty)
  z = MatMul (none, w1)
  negative = Abs (b)
  mean = Neg (negative)
  bad = Sqrt (mean)
  nan = MatMul (bad, w2)
  v = Relu (nan)
  from_constants = Exp (table)
  u = MatMul (from_constants, w3)
  far = Constant <value = float {1000}> ()
  total = ReduceSum <keepdims = 0> (x)
  is_far = Greater (total, far)
  chosen = If (is_far) <
    then_branch = never () => (float[N, 8] s) { s = MatMul (b, shared) },
    else_branch = always () => (float[N, 8] t) { half = MatMul (b, w4)
      t = Relu (half) }>
  y = MatMul (chosen, w5)
}
"""


@pytest.fixture
def model_path(tmp_path):
    rng = np.random.default_rng(8)
    model = parser.parse_model(NET)
    for name in ("shared", "w1", "w2", "w3", "w4", "w5"):
        model.graph.initializer.append(numpy_helper.from_array((rng.standard_normal((8, 8)) / 3).astype(np.float32), name))
    model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((2, 8)).astype(np.float32), "table"))
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in range(8):
        np.save(folder / f"{i}.npy", np.random.default_rng(i).standard_normal((1, 8)).astype(np.float32))
    return folder


def run(path):
    x = np.random.default_rng(40).standard_normal((16, 8)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


@pytest.mark.parametrize("preparation", [[], ["--as-is"]])
@pytest.mark.parametrize("config", ["INT8", "XINT8", "INT8_DYNAMIC", "MXINT8"])
def test_the_rest_is_quantized(config, preparation, model_path, samples, tmp_path, bitpress):
    output = tmp_path / "q.onnx"
    bitpress.ok("quantize", model_path, "-o", output, "--config", config, "--data", samples, *preparation)
    onnx.checker.check_model(output, full_check=True)
    for wanted, found in zip(run(model_path), run(output)):
        assert wanted.shape == found.shape and np.array_equal(np.isnan(wanted), np.isnan(found))
        finite = ~np.isnan(wanted)
        error = ((wanted - found)[finite]**2).sum()
        assert error <= 10**(-1.5 if config != "XINT8" else -1.0) * (wanted[finite]**2).sum()


@pytest.mark.quick
def test_reasons(model_path, samples, tmp_path, bitpress):
    text = bitpress.ok("quantize", model_path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "left float: 'none': no value was ever seen" in text
    assert "left float: 'bad': NaN" in text
    assert "left float: 'b'" not in text and "left float: 'empty'" not in text  # an empty tensor takes the scale of what it is cut from
    assert "not specified" not in text
    plan = json.loads(bitpress.ok("plan", model_path, "--config", "INT8"))
    shared = [row for row in plan["tensors"] if row["value"] == "shared"]
    assert [(row["format"], len(row["uses"])) for row in shared] == [("int8", 3)]
    # The main graph and the body of the If read one quantized weight.
    initializers = {t.name for t in onnx.load(tmp_path / "q.onnx").graph.initializer}
    assert "shared" not in initializers and sum(name.startswith("shared_") and name.endswith("_codes") for name in initializers) == 1

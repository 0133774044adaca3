"""Networks in the bodies of If, Loop and Scan are quantized as any other: their weights, activations and captured values."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from models import sqnr_db
from onnx import numpy_helper, parser

WIDTH = 32

# Both branches have values of the same names, and both hold one constant.
BRANCHES = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 32] x) => (float[N, 32] y) {
  h = MatMul (x, shared)
  r = Relu (h)
  zero = Constant <value = float {0}> ()
  total = ReduceSum <keepdims = 0> (x)
  is_large = Greater (total, zero)
  chosen = If (is_large) <
    then_branch = large () => (float[N, 32] out) {
      a = MatMul (r, w1)
      b = Relu (a)
      deep = If (is_large) <
        then_branch = deeper () => (float[N, 32] d) { d = MatMul (b, shared) },
        else_branch = never () => (float[N, 32] e) { e = MatMul (b, w2) }>
      out = MatMul (deep, w3)
    },
    else_branch = small () => (float[N, 32] out) {
      a = MatMul (r, w1)
      b = Tanh (a)
      out = MatMul (b, w4)
    }>
  y = MatMul (chosen, w5)
}
"""
LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 32] x) => (float[N, 32] y) {
  turns = Constant <value = int64 {3}> ()
  go = Constant <value = bool {1}> ()
  h = MatMul (x, shared)
  z = Loop (turns, go, h) <
    body = turn (int64 i, bool on, float[N, 32] state) => (bool still, float[N, 32] next) {
      still = Identity (on)
      a = MatMul (state, w1)
      b = MatMul (h, w2)
      c = Add (a, b)
      next = Tanh (c) }>
  y = MatMul (z, w3)
}
"""
# Exporters of Keras write the weights of recurrent layers as states that stay as they are.
STATES = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 32] x) => (float[N, 32] y) {
  turns = Constant <value = int64 {3}> ()
  go = Constant <value = bool {1}> ()
  h = MatMul (x, shared)
  z, first, second = Loop (turns, go, h, w1, w2) <
    body = turn (int64 i, bool on, float[N, 32] state, float[32, 32] one, float[32, 32] two)
        => (bool still, float[N, 32] next, float[32, 32] one, float[32, 32] two) {
      still = Identity (on)
      a = MatMul (state, one)
      b = MatMul (h, two)
      c = Add (a, b)
      next = Tanh (c) }>
  y = MatMul (z, w3)
}
"""
SCAN = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[6, 32] x) => (float[32] last, float[6, 32] y) {
  begin = Constant <value_floats = [0.0]> ()
  size = Constant <value = int64[1] {32}> ()
  start = Expand (begin, size)
  last, rows = Scan <num_scan_inputs = 1, body = row (float[32] state, float[32] one) => (float[32] next, float[32] each) {
      front = Constant <value = int64[1] {0}> ()
      s = Unsqueeze (state, front)
      o = Unsqueeze (one, front)
      a = MatMul (s, w1)
      b = MatMul (o, w2)
      c = Add (a, b)
      t = Tanh (c)
      next = Squeeze (t, front)
      p = MatMul (t, w3)
      each = Squeeze (p, front) }> (start, x)
  y = MatMul (rows, w4)
}
"""


def net(text, inside=()):
    """`inside`: weights that lie in the bodies that read them, each in every one."""
    model = parser.parse_model(text)
    rng = np.random.default_rng(5)
    for name in ("shared", "w1", "w2", "w3", "w4", "w5"):
        if name not in text:
            continue
        tensor = numpy_helper.from_array((rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32), name)
        if name not in inside:
            model.graph.initializer.append(tensor)
            continue
        for node in model.graph.node:
            for body in (a.g for a in node.attribute if a.HasField("g")):
                if any(name in inner.input for inner in body.node):
                    body.initializer.append(tensor)
    onnx.checker.check_model(model)
    return model


MODELS = {"branches": net(BRANCHES), "inside": net(BRANCHES, ("w1", "w3", "w4")), "loop": net(LOOP), "loop inside": net(LOOP, ("w1", "w2")),
          "loop states": net(STATES),
          "scan": net(SCAN), "scan inside": net(SCAN, ("w1", "w3"))}


def samples_of(count, seed):
    # Even samples take one branch, odd samples the other.
    rng = np.random.default_rng(seed)
    return [(np.abs(rng.standard_normal((6, WIDTH))) * (1 - 2 * (i % 2))).astype(np.float32) for i in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples")
    for i, sample in enumerate(samples_of(16, 1)):
        np.savez(path / f"{i:02}.npz", x=sample)
    return path


def bodies(graph):
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
                yield from bodies(attribute.g)


@pytest.fixture(scope="module")
def outputs_of(operator_library):
    """outputs_of(path) returns all outputs for samples that take both branches, as one array."""

    def run(path):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        options.register_custom_ops_library(str(operator_library))
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return np.concatenate([output.ravel() for sample in samples_of(8, 2) for output in session.run(None, {"x": sample})])

    return run


INT8, MXINT8 = ["--config", "INT8"], ["--config", "MXINT8"]
# Options of quantize, the bar in dB, and the operators that compute. The bar is 3 dB below the lowest of the first six models as
# measured on 2026-11-22; the highest is 4 dB above the lowest.
WAYS = [
    (INT8, 28, "MatMulIntegerToFloat"), (["--config", "INT8_DYNAMIC"], 32.2, "MatMulInteger"), (MXINT8, 29.7, ""),
    ([*INT8, "--form", "qoperator"], 28, "MatMulIntegerToFloat"), (["--config", "BF16", "--set", "placement=all"], 41.3, ""),
    ([*MXINT8, "--set", "operators=quark"], 29.7, ""), (["--config", "INT8_WEIGHTS"], 35.3, ""),
    (["--config", "INT8_WEIGHTS", "--target", "onnxruntime"], 33, "MatMulNBits"), (["--config", "A16W8"], 29.4, "")]
# The main ways for all models, the others for one of each kind of body. As they are, the models are quantized to integers and to blocks,
# and the branches in all ways.
MAIN = [INT8, ["--config", "INT8_DYNAMIC"], MXINT8, ["--config", "INT8_WEIGHTS"]]
CASES = ([(name, *way, []) for name in MODELS for way in WAYS if way[0] in MAIN or name in ("branches", "loop", "scan")]
         + [(name, *way, ["--as-is"]) for name in MODELS for way in WAYS if way[0] in (INT8, MXINT8) or name == "branches"])


@pytest.mark.parametrize("name, options, bar, operator, preparation", CASES, ids=[
    "-".join([name, *(word for word in options if word[0] != "-"), *preparation]) for name, options, _, _, preparation in CASES])
def test_bodies_are_quantized(name, options, bar, operator, preparation, folder, tmp_path, bitpress, outputs_of):
    path, output, report = tmp_path / "net.onnx", tmp_path / "q.onnx", tmp_path / "r.json"
    onnx.save(MODELS[name], path)
    bitpress.ok("quantize", path, "-o", output, "--data", folder, *options, *preparation)
    onnx.checker.check_model(output, full_check=True)
    assert bar < sqnr_db(outputs_of(path), outputs_of(output)) < bar + 13
    model = onnx.load(output)
    # No weight is left as floats anywhere.
    floats = [t for graph in [model.graph, *bodies(model.graph)] for t in graph.initializer if t.data_type == 1]
    assert all(int(np.prod(t.dims)) < WIDTH * WIDTH for t in floats)
    if operator:
        bitpress.ok("check", output, "--data", folder, "--json", report)
        counts = json.loads(report.read_text())["integer_operators"]
        assert any(found.startswith(operator) or found == "DynamicQuantizeMatMul" for found in counts), counts
        products = sum(n.op_type == "MatMul" for graph in [MODELS[name].graph, *bodies(MODELS[name].graph)] for n in graph.node)
        # One branch never ran and has no ranges; ONNX Runtime makes a Gemm of the Loop's MatMul and Add, whose sum is no constant bias.
        assert sum(counts.values()) >= products - (2 if name.startswith("loop") else 1), counts


@pytest.mark.parametrize("name, options", [
    *((name, INT8) for name in MODELS),
    *((name, options) for name in ("branches", "inside", "scan inside")
      for options in (["--config", "INT8_DYNAMIC"], MXINT8, ["--config", "INT8_WEIGHTS", "--target", "onnxruntime"]))],
                         ids=lambda value: value if isinstance(value, str) else "-".join(value[1::2]))
def test_the_report_reads_weights_in_bodies(name, options, folder, tmp_path, bitpress):
    path, output, report = tmp_path / "net.onnx", tmp_path / "q.onnx", tmp_path / "r.json"
    onnx.save(MODELS[name], path)
    bitpress.ok("quantize", path, "-o", output, "--data", folder, *options)
    bitpress.ok("report", output, "--reference", path, "--data", folder, "-o", tmp_path / "r.html", "--json", report)
    weights = [weight["sqnr_db"] for layer in json.loads(report.read_text())["layers"] for weight in layer["weights"]]
    assert len(weights) >= 2 and all(30 < sqnr < 60 for sqnr in weights), weights


@pytest.mark.parametrize("name", ["branches", "inside", "loop"])
@pytest.mark.parametrize("options", [["--config", "MX4"], ["--config", "INT8", "--weights", "int4"]], ids=["MX4", "int4"])
def test_layers_in_branches_are_tuned(options, name, folder, tmp_path, bitpress, outputs_of):
    path, direct, tuned = (tmp_path / file for file in ("net.onnx", "direct.onnx", "tuned.onnx"))
    onnx.save(MODELS[name], path)
    bitpress.ok("quantize", path, "-o", direct, "--data", folder, *options)
    text = bitpress.ok("quantize", path, "-o", tuned, "--data", folder, *options, "--finetune", "gptq")
    onnx.checker.check_model(tuned, full_check=True)
    if name == "loop":
        assert "fine-tuned:  2 of 4 layers" in text and "the body of a Loop or Scan reads it" in text
    else:
        # Both branches read w1, the main graph and a branch shared; the branch of w2 is never taken.
        assert "fine-tuned:  5 of 6 layers" in text and text.count("it never ran") == 1
    wanted = outputs_of(path)
    assert sqnr_db(wanted, outputs_of(tuned)) > sqnr_db(wanted, outputs_of(direct)) + 0.3


@pytest.mark.parametrize("name", ["branches", "inside", "loop states", "scan inside"])
def test_a_plan_is_carried_out_once(name, folder, tmp_path, bitpress):
    path, plan, stats = tmp_path / "net.onnx", tmp_path / "plan.json", tmp_path / "s.bpc"
    onnx.save(MODELS[name], path)
    bitpress.ok("plan", path, "-o", plan, "--config", "INT8")
    rows = json.loads(plan.read_text())["tensors"]
    assert len({(row["value"], row["role"]) for row in rows}) == len(rows)  # one name, one value
    bitpress.ok("calibrate", path, "-o", stats, "--data", folder)
    bitpress.ok("quantize", path, "-o", tmp_path / "plan.onnx", "--plan", plan, "--calibration", stats)
    bitpress.ok("quantize", path, "-o", tmp_path / "config.onnx", "--config", "INT8", "--data", folder)
    assert (tmp_path / "plan.onnx").read_bytes() == (tmp_path / "config.onnx").read_bytes()


def test_values_of_two_branches_have_names_and_ranges_of_their_own(folder, tmp_path, bitpress):
    path = tmp_path / "net.onnx"
    onnx.save(MODELS["branches"], path)
    bitpress.ok("calibrate", path, "-o", tmp_path / "s.bpc", "--data", folder, "--as-is")
    rows = {line.split()[0]: line.split() for line in bitpress.ok("inspect", tmp_path / "s.bpc").splitlines()[2:]}
    assert float(rows["b"][2]) == 0 and -1 <= float(rows["b_1"][2]) < 0  # a Relu and a Tanh
    assert rows["e"][1] == "0"


def test_constants_of_several_bodies_are_stored_once(folder, tmp_path, bitpress):
    path = tmp_path / "net.onnx"
    onnx.save(MODELS["inside"], path)
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", folder)
    codes = [t for t in onnx.load(tmp_path / "q.onnx").graph.initializer if t.data_type == 3 and len(t.dims) == 2]
    assert len(codes) == 6  # w1 stands in both branches


@pytest.mark.quick
def test_rules_reach_into_bodies(tmp_path, bitpress):
    path = tmp_path / "net.onnx"
    onnx.save(MODELS["branches"], path)

    def formats(*rules):
        arguments = [word for rule in rules for word in ("--rule", rule)]
        plan = json.loads(bitpress.ok("plan", path, "--config", "INT8", "--as-is", *arguments))
        return {row["value"]: row["format"] for row in plan["tensors"] if row["role"] == "weight"}

    assert set(formats().values()) == {"int8"}
    assert formats("tensors=w3: exclude")["w3"] == "none"
    # The nodes on the way to the inner If, which returns the outputs of its bodies.
    excluded = formats("from=b to=deep: exclude")
    assert excluded["w2"] == "none" and excluded["w3"] == excluded["w4"] == "int8"


def test_bodies_run_without_the_library(folder, tmp_path, bitpress, run_model):
    for name in ("branches", "loop", "scan"):
        path, output = tmp_path / "net.onnx", tmp_path / "q.onnx"
        onnx.save(MODELS[name], path)
        bitpress.ok("quantize", path, "-o", output, "--config", "MXINT8", "--data", folder)
        session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
        for sample in samples_of(2, 3):
            for wanted, found in zip(run_model(output, {"x": sample}), session.run(None, {"x": sample})):
                np.testing.assert_array_equal(wanted, found)

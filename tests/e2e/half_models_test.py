"""Models of FLOAT16 are quantized as those of FLOAT are: weights are found, what stays float stays FLOAT16, and the file has the
Casts of the given model and no others, although ONNX Runtime computes FLOAT16 between Casts of its own."""

import json
from collections import Counter

import numpy as np
import onnx
import pytest
from models import sqnr_db
from onnx import TensorProto, helper, numpy_helper, parser

CONFIGS = ["INT8_WEIGHTS", "INT4_WEIGHTS", "MX6"]
WIDTH = 48

LAYERS = """
<ir_version: 8, opset_import: ["" : OPSET]>
net (float16[N, 3, 8, 8] x) => (float16[N, 48] y) {
  c = Conv <pads = [1, 1, 1, 1]> (x, wc, bc)
  n = BatchNormalization (c, scale, shift, mean, variance)
  r = Relu (n)
  p = GlobalAveragePool (r)
  f = Flatten (p)
  m = MatMul (f, wm)
  y = Gemm <transB = 1> (m, wg, bg)
}
"""
# Casts from and to FLOAT16 stand where ONNX Runtime inserts its own.
MIXED = """
<ir_version: 8, opset_import: ["" : OPSET]>
net (float16[N, 48] x) => (float16[N, 48] y, float[N, 48] p, float16[N, 48] like) {
  m = MatMul (x, w1)
  wide = Cast <to = 1> (m)
  e = Exp (wide)
  e16 = Cast <to = 10> (e)
  n = MatMul (m, w2)
  o = MatMul (e16, w3)
  x32 = Cast <to = 1> (x)
  p = MatMul (x32, w4)
  q = MatMul (x, w5)
  like = EyeLike <dtype = 10> (q)
  s = Add (n, o)
  y = Add (s, q)
}
"""
BODIES = """
<ir_version: 8, opset_import: ["" : OPSET]>
net (float16[N, 48] x, bool is_large) => (float16[N, 48] y) {
  h = MatMul (x, w1)
  chosen = If (is_large) <
    then_branch = large () => (float16[N, 48] out) {
      a = MatMul (h, w2)
      wide = Cast <to = 1> (a)
      t = Tanh (wide)
      t16 = Cast <to = 10> (t)
      out = MatMul (t16, w3)
    },
    else_branch = small () => (float16[N, 48] out) {
      a = MatMul (h, w3)
      b = Relu (a)
      out = MatMul (b, w4)
    }>
  y = MatMul (chosen, w5)
}
"""
SHAPES = {"wc": (48, 3, 3, 3), "bc": (48,), "scale": (48,), "shift": (48,), "mean": (48,), "variance": (48,), "bg": (48,)}


def load(text, opset):
    """A model of the text, with random weights for the names that no node gives."""
    model = parser.parse_model(text.replace("OPSET", str(opset)))
    rng = np.random.default_rng(5)
    for name in sorted(set(SHAPES) | {"wm", "wg", "w1", "w2", "w3", "w4", "w5"}):
        if f"{name})" not in text and f"{name}," not in text:
            continue
        values = rng.standard_normal(SHAPES.get(name, (WIDTH, WIDTH))) / 8
        if name == "variance":
            values = np.abs(values) + 1
        is_float = text is MIXED and name == "w4"
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32 if is_float else np.float16), name))
    model.ir_version = 8 if opset < 21 else 10
    onnx.checker.check_model(model, full_check=True)
    return model


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def casts_of(model):
    """The Casts that decode no weight, by name of their output and type."""
    casts = Counter()
    unpacked = {output for node in model.graph.node if node.op_type.startswith("Unpack") for output in node.output}
    for node in nodes_of(model.graph):
        if node.op_type == "Cast" and node.input[0] not in unpacked:
            casts[node.output[0], next(a.i for a in node.attribute if a.name == "to")] += 1
    return casts


def feeds_of(model):
    rng = np.random.default_rng(6)
    feeds = {}
    for value in model.graph.input:
        dims = [d.dim_value or 5 for d in value.type.tensor_type.shape.dim]
        is_bool = value.type.tensor_type.elem_type == TensorProto.BOOL
        feeds[value.name] = np.array(True) if is_bool else rng.standard_normal(dims).astype(np.float16)
    return feeds


def check_outputs(run_model, given, quantized, feeds, tolerance):
    for ours, exact in zip(run_model(quantized, feeds), run_model(given, feeds), strict=True):
        assert ours.dtype == exact.dtype
        error = np.linalg.norm(ours.astype(np.float64) - exact) / np.linalg.norm(exact.astype(np.float64))
        assert error < tolerance


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("text, num_weights", [(LAYERS, 3), (MIXED, 5), (BODIES, 5)], ids=["layers", "mixed", "bodies"])
@pytest.mark.parametrize("config", CONFIGS)
def test_weights_are_quantized_and_no_cast_comes(config, text, num_weights, opset, tmp_path, bitpress, run_model):
    model = load(text, opset)
    onnx.save(model, tmp_path / "half.onnx")
    plan = json.loads(bitpress.ok("plan", tmp_path / "half.onnx", "--config", config))
    rows = [row for row in plan["tensors"] if row["role"] == "weight"]
    assert len(rows) == num_weights
    assert all(row["format"] for row in rows), rows
    bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", config)
    quantized = onnx.load(tmp_path / "q.onnx")
    assert casts_of(quantized) == casts_of(model)
    assert not [node for node in nodes_of(quantized.graph) if "Inserted" in node.name or "Inserted" in "".join(node.output)]
    assert not [node for node in nodes_of(quantized.graph) if node.domain == "bitpress.observe"]
    assert "bitpress.observe" not in [opset.domain for opset in quantized.opset_import]
    tolerance = {"INT8_WEIGHTS": 0.03, "INT4_WEIGHTS": 0.4, "MX6": 0.2}[config]
    check_outputs(run_model, tmp_path / "half.onnx", tmp_path / "q.onnx", feeds_of(model), tolerance)


@pytest.mark.parametrize("text", [pytest.param(LAYERS, marks=pytest.mark.quick), MIXED, BODIES], ids=["layers", "mixed", "bodies"])
def test_what_stays_float_stays_float16(text, tmp_path, bitpress, run_model):
    model = load(text, 17)
    onnx.save(model, tmp_path / "half.onnx")
    bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", "INT8_WEIGHTS", "--weights", "none")
    quantized = onnx.load(tmp_path / "q.onnx")
    given = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    kept = {tensor.name: tensor.data_type for tensor in quantized.graph.initializer}
    assert len(kept) >= 4
    assert {name for name, kind in kept.items() if kind == TensorProto.FLOAT} == {n for n, k in given.items() if k == TensorProto.FLOAT}
    assert all(node.op_type != "BatchNormalization" for node in quantized.graph.node), "it was folded before"
    check_outputs(run_model, tmp_path / "half.onnx", tmp_path / "q.onnx", feeds_of(model), 2e-3)


def test_casts_with_the_names_of_onnx_runtime_stay(tmp_path, bitpress):
    """A model that ONNX Runtime wrote has its Casts: they were given."""
    model = load(LAYERS, 17)
    for node in model.graph.node:
        if node.op_type == "MatMul":
            node.input[0] = "InsertedPrecisionFreeCast_given_f"
            node.input[1] = "InsertedPrecisionFreeCast_given_wm"
            node.output[0] = "InsertedPrecisionFreeCast_given_m"
    at = next(i for i, node in enumerate(model.graph.node) if node.op_type == "MatMul")

    def cast(source, target, kind):
        return helper.make_node("Cast", [source], [target], f"InsertedPrecisionFreeCast_{source}", to=kind)

    nodes = list(model.graph.node)
    nodes[at:at + 1] = [cast("f", "InsertedPrecisionFreeCast_given_f", 1), cast("wm", "InsertedPrecisionFreeCast_given_wm", 1), nodes[at],
                        cast("InsertedPrecisionFreeCast_given_m", "m", 10)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "half.onnx")
    bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", "INT8_WEIGHTS")
    casts = casts_of(onnx.load(tmp_path / "q.onnx"))
    assert casts["InsertedPrecisionFreeCast_given_f", 1] == 1
    assert casts["m", 10] == 1


def test_large_weights_are_hidden_from_the_clean_up_and_come_back(tmp_path, bitpress):
    rng = np.random.default_rng(7)
    large = (rng.standard_normal((768, 768)) / 28).astype(np.float16)
    text = ('<ir_version: 8, opset_import: ["" : 17]>\n'
            "net (float16[N, 768] x) => (float16[N, 768] y) { a = MatMul (x, w1)\n b = Relu (a)\n y = MatMul (b, w2) }")
    model = parser.parse_model(text)
    model.graph.initializer.extend([numpy_helper.from_array(large, "w1"), numpy_helper.from_array(large.T.copy(), "w2")])
    onnx.save(model, tmp_path / "half.onnx")
    bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS")
    assert (tmp_path / "q.onnx").stat().st_size < 0.33 * (tmp_path / "half.onnx").stat().st_size


def test_a_search_by_bits_finds_the_weights(tmp_path, bitpress):
    model = load(LAYERS, 17)
    onnx.save(model, tmp_path / "half.onnx")
    (tmp_path / "samples").mkdir()
    for i in range(4):
        np.save(tmp_path / "samples" / f"{i}.npy", np.random.default_rng(i).standard_normal((1, 3, 8, 8)).astype(np.float16))
    bitpress.ok("search", tmp_path / "half.onnx", "--weight-candidates", "int8,int4", "--activation-candidates", "none", "--data",
                tmp_path / "samples", "--budget", "bits<=6", "-o", tmp_path / "plan.json")
    formats = {row["format"] for row in json.loads((tmp_path / "plan.json").read_text())["tensors"] if row["role"] == "weight"}
    assert formats & {"int4", "uint4"}


def half_net(path):
    """Layers with and without FLOAT16 weights around Casts, an input that an If reads, and types in attributes."""
    rng = np.random.default_rng(5)
    constants = {"w1": rng.standard_normal((16, 3, 3, 3)) / 5, "b1": rng.standard_normal(16) / 5, "w2": rng.standard_normal((16, 16, 3, 3)) / 12,
                 "w3": rng.standard_normal((16, 600)) / 4, "w4": rng.standard_normal((600, 16)) / 25}
    node = helper.make_node
    then = helper.make_graph([node("Constant", [], ["two"], value=numpy_helper.from_array(np.float16(2))), node("Mul", ["p", "two"], ["t"])],
                             "then", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT16, None)])
    other = helper.make_graph([node("Identity", ["p"], ["e"])], "other", [], [helper.make_tensor_value_info("e", TensorProto.FLOAT16, None)])
    nodes = [node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]), node("Relu", ["c1"], ["r1"], "relu"),
             node("Conv", ["r1", "w2"], ["c2"], "conv2", pads=[1, 1, 1, 1]), node("Cast", ["c2"], ["wide"], "up", to=TensorProto.FLOAT),
             node("Softmax", ["wide"], ["s"], "softmax", axis=1), node("Cast", ["s"], ["narrow"], "down", to=TensorProto.FLOAT16),
             node("Add", ["narrow", "c2"], ["sum"], "add"), node("GlobalAveragePool", ["sum"], ["pooled"], "pool"),
             node("Flatten", ["pooled"], ["p"], "flat"), node("If", ["flag"], ["q"], "if", then_branch=then, else_branch=other),
             node("MatMul", ["q", "w3"], ["m"], "product"), node("MatMul", ["m", "w4"], ["y"], "last")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["N", 3, 8, 8]),
                                             helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["N", 16])],
                              [numpy_helper.from_array(array.astype(np.float16), name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


@pytest.mark.integers
@pytest.mark.parametrize("config, operator", [("INT8", "QuantizeLinear"), ("INT8_DYNAMIC", "MatMulInteger")])
def test_integers_make_the_network_float_first(config, operator, tmp_path, bitpress, run_model):
    """Its inputs and outputs stay FLOAT16, and the summary says it. Left FLOAT16, no activation becomes an integer."""
    model, quantized = half_net(tmp_path / "half.onnx"), tmp_path / "q.onnx"
    (tmp_path / "samples").mkdir()
    rng = np.random.default_rng(3)
    feeds = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float16), "flag": np.array(i % 2 == 0)} for i in range(8)]
    for i, one in enumerate(feeds):
        np.savez(tmp_path / "samples" / f"{i}.npz", **one)
    options = ["--config", config, *(["--data", tmp_path / "samples"] if config == "INT8" else [])]
    text = bitpress.checking.ok("quantize", model, "-o", quantized, *options)
    assert "the network was made FLOAT first" in text
    written = onnx.load(quantized)
    onnx.checker.check_model(written, full_check=True)
    assert operator in {one.op_type for one in written.graph.node}
    assert TensorProto.FLOAT16 not in {one.data_type for one in written.graph.initializer}
    casts = [value for value, _ in casts_of(written) if not value.endswith("_unscaled")]  # those are MatMulInteger's own
    assert casts == ["x_float", "y"] and quantized.stat().st_size < 0.8 * model.stat().st_size
    assert written.graph.input[0].type.tensor_type.elem_type == written.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    for one in feeds[:2]:
        wanted, found = run_model(model, one)[0], run_model(quantized, one)[0]
        assert found.dtype == np.float16 and sqnr_db(wanted.astype(np.float32), found.astype(np.float32)) > 25
    text = bitpress.ok("quantize", model, "-o", quantized, *options, "--disable-pass", "widen-half")
    assert "made FLOAT first" not in text and "its type is FLOAT16" in text
    plan = tmp_path / "plan.json"
    bitpress.ok("plan", model, "--config", config, "-o", plan)
    again = bitpress.ok("quantize", model, "-o", tmp_path / "again.onnx", "--plan", plan, *options[2:])
    assert "made FLOAT first" in again

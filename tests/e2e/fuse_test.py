"""`passes=fuse` writes the nodes of a GELU and of a layer normalization as one operator each, which computes the same."""

import json
from collections import Counter

import models
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

WIDTH = 32

NORM = """
  m = ReduceMean <axes = [-1], keepdims = 1> (x)
  d = Sub (x, m)
  s = Pow (d, two)
  v = ReduceMean <axes = [-1], keepdims = 1> (s)
  ve = Add (v, eps)
  sd = Sqrt (ve)
  n = Div (d, sd)
  ns = Mul (n, scale)
  h = Add (ns, shift)
"""
GELUS = {
    "erf": "e = Div (p, root) f = Erf (e) g = Add (f, one) k = Mul (p, g) q = Mul (k, half)",
    "erf of a product": "e = Mul (p, inverse_root) f = Erf (e) g = Add (one, f) k = Mul (p, half) q = Mul (k, g)",
    "tanh": "c = Pow (p, three) e = Mul (c, cubic) z = Add (p, e) w3 = Mul (z, factor) f = Tanh (w3) g = Add (f, one) "
            "k = Mul (half, p) q = Mul (k, g)"}
NUMBERS = {"two": 2, "three": 3, "eps": 1e-5, "root": 2**0.5, "inverse_root": 0.5**0.5, "one": 1, "half": 0.5, "cubic": 0.044715,
           "factor": (2 / np.pi)**0.5}


def network(gelu=GELUS["erf"], norm=NORM, outputs="float[N, 32] y"):
    model = parser.parse_model(f"""
<ir_version: 8, opset_import: ["" : 14]>
net (float[N, 32] x) => ({outputs}) {{
  {norm}
  p = MatMul (h, w1)
  {gelu}
  y = MatMul (q, w2)
}}""")
    rng = np.random.default_rng(3)
    constants = {name: (rng.standard_normal((WIDTH, WIDTH)) / 4).astype(np.float32) for name in ("w1", "w2")}
    constants |= {name: rng.standard_normal(WIDTH).astype(np.float32) for name in ("scale", "shift")}
    constants |= {name: np.array(number, np.float32) for name, number in NUMBERS.items()}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items() if name in used)
    for node in model.graph.node:
        node.name = f"node_{node.output[0]}"
    return model


def inputs():
    return {"x": np.random.default_rng(5).standard_normal((16, WIDTH)).astype(np.float32) * 3 + 1}


def types(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("gelu", GELUS)
def test_each_form_becomes_one_operator_that_computes_the_same(bitpress, run_model, tmp_path, gelu):
    path = models.save(network(GELUS[gelu]), tmp_path / "float.onnx")
    out = tmp_path / "fused.onnx"
    text = bitpress.ok("quantize", path, "-o", out, "--config", "MX6", "--set", "activations=none", "--set", "weights=none",
                       "--set", "passes=fuse=all")
    assert "  fused:       1 Gelu, 1 LayerNormalization; left alone 0" in text, text
    assert types(out) == {"LayerNormalization": 1, "MatMul": 2, "Gelu": 1}
    written = onnx.load(out)
    assert {node.name for node in written.graph.node} == {"node_h", "node_p", "node_q", "node_y"}
    wanted, found = run_model(path, inputs())[0], run_model(out, inputs())[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.quick
def test_only_what_is_asked_for(bitpress, tmp_path):
    path = models.save(network(), tmp_path / "float.onnx")
    out = tmp_path / "out.onnx"
    command = ("quantize", path, "-o", out, "--config", "INT4_WEIGHTS")
    bitpress.ok(*command)
    assert "Gelu" not in types(out) and "LayerNormalization" not in types(out)
    bitpress.ok(*command, "--set", "passes=fuse=gelu", "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["rewrites"]["fused"] == {"Gelu": 1, "left_alone": []}
    assert types(out)["Gelu"] == 1 and "LayerNormalization" not in types(out)
    assert "fused" not in bitpress.ok(*command, "--set", "passes=fuse=gelu", "--disable-pass", "fuse")
    for wrong in ("fusee=all", "fuse=norm", "fuse", "trim-inputs=all"):
        message = bitpress.error(*command, "--set", f"passes={wrong}")
        assert f"'{wrong}' is none of " in message and "fuse=all|gelu|layer_norm" in message, message


@pytest.mark.parametrize("model, why", [
    (lambda: network(outputs="float[N, 32] y, float[N, 32] k"), None),
    (lambda: network(gelu=GELUS["erf"].replace("Mul (p, g)", "Mul (h, g)")), None),
    (lambda: network(norm=NORM.replace("axes = [-1]", "axes = [0]")), "other axes than the last"),
    (lambda: network(norm=NORM.replace("keepdims = 1> (s)", "keepdims = 1> (d)")), None)])
def test_what_computes_something_else_stays(bitpress, run_model, tmp_path, model, why):
    path = models.save(model(), tmp_path / "float.onnx")
    out = tmp_path / "out.onnx"
    text = bitpress.ok("quantize", path, "-o", out, "--config", "MX6", "--set", "activations=none", "--set", "weights=none",
                       "--set", "passes=fuse=all", "--verbose")
    assert len(types(out) & Counter({"Gelu": 1, "LayerNormalization": 1})) == 1, types(out)
    assert why is None or why in text
    for wanted, found in zip(run_model(path, inputs()), run_model(out, inputs())):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_rule_names_nodes_of_the_given_file(bitpress, tmp_path):
    path = models.save(network(), tmp_path / "float.onnx")
    plan = tmp_path / "plan.json"
    bitpress.ok("plan", path, "-o", plan, "--config", "MX6", "--set", "placement=all", "--set", "passes=fuse=all",
                "--set", "exclude_nodes=node_f")
    rows = json.loads(plan.read_text())["tensors"]
    reasons = [row for row in rows if any(use["op_type"] == "Gelu" for use in row.get("uses", []))]
    assert reasons and all(row["format"] == "none" for row in reasons), reasons
    assert json.loads(plan.read_text())["config"]["passes"] in ("fuse=all", ["fuse=all"])


def test_less_is_lost_where_all_values_are_quantized(bitpress, run_model, tmp_path):
    path = models.save(network(), tmp_path / "float.onnx")
    out = tmp_path / "out.onnx"
    wanted = run_model(path, inputs())[0]
    losses = []
    for words in ([], ["--set", "passes=fuse=all"]):
        bitpress.ok("quantize", path, "-o", out, "--config", "MX6", "--set", "placement=all", *words)
        losses.append(models.sqnr_db(wanted, run_model(out, inputs())[0]))
    assert losses[1] > losses[0] + 1, losses

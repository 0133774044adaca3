"""Names and operator types of the given file work in rules and exclusions, whatever preparation made of the nodes and values."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

# Preparation makes one Gemm of m1 and a1, folds bn into conv, folds turn into a constant, and takes copy away.
NET = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 8] x, float[N, 4, 6, 6] image) => (float[N, 8] y, float[N, 4, 6, 6] z) {
  [m1] p = MatMul (x, w1)
  [a1] s = Add (p, b1)
  [copy] s2 = Identity (s)
  [relu] r = Relu (s2)
  [turn] w2t = Transpose <perm = [1, 0]> (w2)
  [m2] q = MatMul (r, w2t)
  [last] y = Tanh (q)
  [conv] c = Conv <pads = [1, 1, 1, 1]> (image, w3)
  [bn] z = BatchNormalization (c, scale, bias, mean, variance)
}
"""


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(8)
    proto = parser.parse_model(NET)
    shapes = {"w1": (8, 8), "b1": (8,), "w2": (8, 8), "w3": (4, 4, 3, 3), "scale": (4,), "bias": (4,), "mean": (4,), "variance": (4,)}
    for name, shape in shapes.items():
        values = np.abs(rng.standard_normal(shape)) if name == "variance" else rng.standard_normal(shape)
        proto.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def weights(model, tmp_path, bitpress):
    """Returns the formats of the weights under a rule, by the type of the operator that reads them: Gemm, MatMul, Conv."""

    def plan(*options):
        bitpress.ok("plan", model, "-o", tmp_path / "plan.json", "--config", "MX6", *options)
        rows = json.loads((tmp_path / "plan.json").read_text())["tensors"]
        return {row["uses"][0]["op_type"]: row["format"] for row in rows if row["role"] == "weight"}

    assert plan() == {"Gemm": "mx6", "MatMul": "mx6", "Conv": "mx6"}
    return plan


@pytest.mark.parametrize("selector, changed", [
    ("names=m1", "Gemm"), ("names=a1", "Gemm"), ("nodes=m[1]", "Gemm"), ("tensors=w1", "Gemm"), ("tensors=p", ""),
    ("names=m2", "MatMul"), ("tensors=w2", "MatMul"), ("names=conv", "Conv"), ("names=bn", "Conv"), ("tensors=w3", "Conv"),
    ("from=m1 to=s", "Gemm"), ("from=copy to=q", "MatMul"), ("from=c to=bn", "Conv"), ("op_types=Gemm", "Gemm"),
    ("op_types=Conv", "Conv")])
def test_names_of_the_given_file(selector, changed, weights):
    expected = {"Gemm": "mx6", "MatMul": "mx6", "Conv": "mx6"}
    if changed:
        expected[changed] = "mx9"
    assert weights("--rule", f"{selector}: weights=mx9") == expected


@pytest.mark.quick
def test_types_of_the_given_file(weights):
    assert weights("--rule", "op_types=MatMul: weights=mx9") == {"Gemm": "mx9", "MatMul": "mx9", "Conv": "mx6"}
    assert weights("--set", "exclude_op_types=MatMul") == {"Gemm": "none", "MatMul": "none", "Conv": "mx6"}
    assert weights("--rule", "not_op_types=MatMul: exclude") == {"Gemm": "mx6", "MatMul": "mx6", "Conv": "none"}
    # An Add does not multiply. It became a part of the Gemm by chance.
    assert "Add" not in weights()


def test_what_preparation_folded_is_named_with_the_reason(model, tmp_path, bitpress):
    def error(rule):
        return bitpress.error("plan", model, "-o", tmp_path / "plan.json", "--config", "MX6", "--rule", rule)

    folded = error("names=turn: exclude")
    assert "'turn'" in folded and "made a constant of its result" in folded and "--as-is" in folded
    typed = error("op_types=BatchNormalization: exclude")
    assert "'BatchNormalization'" in typed and "preparation folded" in typed
    misspelt = error("names=m3: exclude")
    assert "matches no node's name in the model" in misspelt
    bitpress.ok("plan", model, "-o", tmp_path / "plan.json", "--config", "MX6", "--as-is", "--rule", "names=turn: exclude")

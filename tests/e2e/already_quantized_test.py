"""A model that is quantized already, in whole or in part, is told from a float one, because a file without a change would pass for
one in the wanted format."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from models import make_model, save
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

CONFIGS = ["INT8_DYNAMIC", "INT4_WEIGHTS", "MX6", "FP16"]


@pytest.fixture
def float_path(tmp_path):
    """Two layers, so that one of them can stay float."""
    rng = np.random.default_rng(7)
    weights = {name: (rng.standard_normal((48, 48)) / 7).astype(np.float32) for name in ("w1", "w2")}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], "first"), helper.make_node("MatMul", ["a", "w2"], ["y"], "second")]
    return save(make_model(nodes, [("x", ["N", 48])], [("y", ["N", 48])], weights), tmp_path / "float.onnx")


def line_of(text):
    """The line about what was quantized before, or "" if there is none."""
    found = re.findall(r"^  WARNING: (.*(?:already quantized: \d|nothing was quantized).*)$", text, re.MULTILINE)
    assert len(found) <= 1, found
    return found[0].strip() if found else ""


def outputs(path):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(8).standard_normal((5, 48)).astype(np.float32)})[0]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_float_model_has_no_such_line(config, float_path, tmp_path, bitpress):
    assert line_of(bitpress.ok("quantize", float_path, "-o", tmp_path / "q.onnx", "--config", config)) == ""


@pytest.mark.parametrize("config", CONFIGS)
def test_models_of_other_tools(config, float_path, tmp_path, bitpress):
    quantize_dynamic(float_path, tmp_path / "int8.onnx")
    text = bitpress.ok("quantize", tmp_path / "int8.onnx", "-o", tmp_path / "q.onnx", "--config", config)
    assert line_of(text) == ("nothing was quantized: the model is already quantized: 2 DynamicQuantizeLinear, 2 MatMulInteger; "
                             "give the float model that it was made from")
    np.testing.assert_array_equal(outputs(tmp_path / "q.onnx"), outputs(tmp_path / "int8.onnx"))


@pytest.mark.quick
def test_the_float_rest_is_quantized(float_path, tmp_path, bitpress):
    quantize_dynamic(float_path, tmp_path / "half.onnx", nodes_to_quantize=["first"])
    text = bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC")
    assert line_of(text) == ("the model is already quantized: 1 DynamicQuantizeLinear, 1 MatMulInteger; these stay as they are, the rest "
                             "was quantized")
    assert [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node].count("MatMulInteger") == 2


def test_given_codes_are_no_floats(tmp_path, bitpress):
    """The first weight takes 160 kB of codes, the second 4 kB: nothing is left float."""
    rng = np.random.default_rng(5)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "first"), helper.make_node("MatMul", ["h", "v"], ["y"], "second")]
    weights = [numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), name)
               for name, shape in {"w": (400, 400), "v": (400, 10)}.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 400])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "half.onnx", nodes_to_quantize=["first"])
    text = bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC")
    share = int(re.search(r"constants: (\d+) % of their bytes are quantized", text)[1])
    assert share >= 97 and "stay float" not in text


@pytest.mark.parametrize("config, operators", [("INT8_WEIGHTS", "2 Unpack_int8"), ("MX6", "2 MatMul_mx6, 2 QuantizeDequantize_mx6"),
                                               ("INT8_DYNAMIC", "2 MatMulInteger, 2 QuantizeLinear")])
def test_our_own_models(config, operators, float_path, tmp_path, bitpress):
    bitpress.ok("quantize", float_path, "-o", tmp_path / "q.onnx", "--config", config)
    text = bitpress.ok("quantize", tmp_path / "q.onnx", "-o", tmp_path / "again.onnx", "--config", config)
    assert line_of(text).startswith(f"nothing was quantized: the model is already quantized: {operators};")


def test_a_model_without_weights(tmp_path, bitpress):
    model = make_model([helper.make_node("Relu", ["x"], ["y"], "relu")], [("x", ["N", 48])], [("y", ["N", 48])], {})
    text = bitpress.ok("quantize", save(model, tmp_path / "relu.onnx"), "-o", tmp_path / "q.onnx", "--config", "MX6")
    assert line_of(text) == "nothing was quantized: no operator reads a weight or an activation that 'MX6' quantizes; deploy the given model"


@pytest.mark.parametrize("again", ["INT8_WEIGHTS", "BF16"])
@pytest.mark.parametrize("config", ["INT8_WEIGHTS", "INT4_WEIGHTS", "MX6"])
def test_packed_weights_stay_packed(config, again, float_path, tmp_path, bitpress, run_model):
    """Preparing a model would decode its weights, and store them as floats."""
    bitpress.ok("quantize", float_path, "-o", tmp_path / "q.onnx", "--config", config)
    text = bitpress.ok("quantize", tmp_path / "q.onnx", "-o", tmp_path / "again.onnx", "--config", again)
    assert "the model is already quantized" in line_of(text)
    packed, kept = (onnx.load(tmp_path / name).graph for name in ("q.onnx", "again.onnx"))
    codes = {tensor.name: tensor.raw_data for tensor in packed.initializer}
    assert sum(len(data) for data in codes.values()) < 48 * 48 * 4
    assert {tensor.name: tensor.raw_data for tensor in kept.initializer} == codes
    if again == config:
        x = {"x": np.random.default_rng(9).standard_normal((5, 48)).astype(np.float32)}
        np.testing.assert_array_equal(run_model(tmp_path / "again.onnx", x)[0], run_model(tmp_path / "q.onnx", x)[0])

"""`--form qoperator` writes operators that compute on codes, as ONNX Runtime itself makes them from the QDQ form."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from models import QuantizedModels, save_noise
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 3, 16, 16)


def net():
    """Every kind of operator that has a form on codes, and some without: Softmax, and a Relu whose codes do not saturate."""
    rng = np.random.default_rng(11)
    weights = {}

    def constant(name, *shape):
        weights[name] = (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)
        return name

    node = helper.make_node
    weights |= {"zero": np.float32(0), "six": np.float32(6), "flat": np.array([0, -1]), "grow": np.array([1, 1, 2, 2], np.float32)}
    nodes = [
        node("Conv", ["x", constant("w1", 16, 3, 3, 3), constant("b1", 16)], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("MaxPool", ["r1"], ["p1"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", constant("w2", 16, 1, 3, 3)], ["c2"], "conv2", pads=[1, 1, 1, 1], group=16),
        node("Clip", ["c2", "zero", "six"], ["k2"], "clip"),
        node("Add", ["k2", "p1"], ["a1"], "add"), node("Sigmoid", ["a1"], ["s1"], "sigmoid"), node("Mul", ["s1", "a1"], ["m1"], "mul"),
        node("Conv", ["m1", constant("w3", 8, 16, 1, 1), constant("b3", 8)], ["c3"], "conv3"),
        node("LeakyRelu", ["c3"], ["l3"], "leaky", alpha=0.1),
        node("Concat", ["m1", "l3"], ["j1"], "concat", axis=1),
        node("Resize", ["j1", "", "grow"], ["z1"], "resize", mode="nearest"),
        node("AveragePool", ["z1"], ["v1"], "average", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["v1"], ["g1"], "global"), node("Reshape", ["g1", "flat"], ["f1"], "reshape"),
        node("MatMul", ["f1", constant("w4", 24, 20)], ["d4"], "product"), node("Gemm", ["d4", constant("w5", 10, 20), constant("b5", 10)], ["y"], "classifier", transB=1),
        node("MatMul", ["d4", constant("w6", 20, 6)], ["z"], "scores"),
    ]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE[1:]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10]),
                               helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 6])],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory, bitpress):
    folder = tmp_path_factory.mktemp("qoperator")
    onnx.save(net(), folder / "net.onnx")
    return QuantizedModels(bitpress, folder / "net.onnx", folder)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return save_noise(tmp_path_factory.mktemp("noise") / "samples", SHAPE)


def run(path, level="ENABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(4).standard_normal((32, *SHAPE[1:])).astype(np.float32)})


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def both(quantized, *options):
    """Returns the model in QDQ form, the one of operators on codes, and what was printed of the latter."""
    paths = [quantized.path(*options, "--form", form) for form in ("qdq", "qoperator")]
    for path in paths:
        onnx.checker.check_model(path, full_check=True)
    return *paths, quantized.text(*options, "--form", "qoperator")


@pytest.mark.integers
@pytest.mark.parametrize("options", [pytest.param(["--config", "INT8"], marks=pytest.mark.quick),
                                     ["--config", "INT8", "--set", "weight_granularity=per_tensor"],
                                     ["--config", "U8U8_AAWA"], ["--config", "INT8", "--set", "activation_range=min_max"]],
                         ids=" ".join)
def test_the_same_outputs_as_onnx_runtime_makes_of_qdq(options, quantized, samples):
    qdq, qoperator, text = both(quantized, *options, "--data", samples)
    assert "16 nodes are operators on integers" in text and "as ever" not in text
    found = operators(qoperator)
    assert found["QuantizeLinear"] == 1 and found["DequantizeLinear"] == 0
    assert found["QLinearConv"] == 3 and found["QLinearMatMul"] == 1 and found["QGemm"] == 1 and found["MatMulIntegerToFloat"] == 1
    for name in ("Add", "Mul", "Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool"):
        assert found[f"QLinear{name}"] == 1 and found[name] == 0
    assert found["Conv"] == found["Relu"] == found["Clip"] == found["Gemm"] == found["MatMul"] == 0
    assert found["MaxPool"] == found["Reshape"] == found["Resize"] == 1
    assert found["Concat"] + found["QLinearConcat"] == 1
    optimized = run(qoperator)
    for fused, written in zip(run(qdq), optimized, strict=True):
        assert np.array_equal(fused, written)
    for written, plain in zip(optimized, run(qoperator, "DISABLE_ALL"), strict=True):
        assert np.allclose(written, plain, rtol=0, atol=np.abs(plain).max() / 50)


@pytest.mark.integers
def test_signed_activations_keep_the_relu_that_codes_do_not_do(quantized, samples):
    qdq, qoperator, text = both(quantized, "--config", "A8W8", "--data", samples)
    assert "as ever: Relu behind it is more than the saturation of codes" in text
    found = operators(qoperator)
    assert found["Relu"] == 1 and found["Conv"] >= 1 and found["QLinearConv"] >= 1
    for fused, written in zip(run(qdq), run(qoperator), strict=True):
        assert np.allclose(fused, written, rtol=0, atol=np.abs(fused).max() / 50)


def test_other_codes_stay_between_q_and_dq(quantized, samples):
    qdq, qoperator, text = both(quantized, "--config", "U16S8_AAWS", "--data", samples)
    assert "0 nodes are operators on integers" in text and "other codes than 8 bits" in text
    assert qdq.read_bytes() == qoperator.read_bytes()


def test_float_models_do_not_change(quantized):
    qdq, qoperator, _ = both(quantized, "--config", "MX9")
    assert qdq.read_bytes() == qoperator.read_bytes()


def foreign(bias_scale, zero_point_dims=(), opset=17):
    """Returns a Q/DQ model as another tool makes it, with a Conv whose bias and zero points are these."""
    node = helper.make_node
    scale = np.array([0.5, 0.25], np.float32)
    constants = {"s": np.float32(0.5), "z": np.zeros(zero_point_dims, np.uint8), "w": np.arange(12, dtype=np.int8).reshape(2, 6, 1, 1),
                 "ws": scale, "wz": np.zeros(2, np.int8), "b": np.arange(2, dtype=np.int32), "bs": bias_scale,
                 "bz": np.zeros(2, np.int32)}
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["xc"], "q"), node("DequantizeLinear", ["xc", "s", "z"], ["xd"], "d"),
             node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], "wd", axis=0),
             node("DequantizeLinear", ["b", "bs", "bz"], ["bd"], "bd", axis=0), node("Conv", ["xd", "wd", "bd"], ["c"], "conv"),
             node("QuantizeLinear", ["c", "s", "z"], ["cc"], "cq"), node("DequantizeLinear", ["cc", "s", "z"], ["y"], "yd")]
    graph = helper.make_graph(nodes, "foreign", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6, 4, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("bias_scale, zero_point_dims, expected", [
    ([0.25, 0.125], (), 1), ([0.25, 0.25], (), 0), ([0.25, 0.125], (0,), 0), ([0.25, 0.125], (1,), 0)])
def test_models_of_other_tools_are_not_trusted(bias_scale, zero_point_dims, expected, tmp_path, bitpress):
    """The scale of a bias must be that of the products, and the zero point of a scalar scale must be a scalar."""
    onnx.save(foreign(np.array(bias_scale, np.float32), zero_point_dims), tmp_path / "foreign.onnx")
    bitpress.ok("quantize", tmp_path / "foreign.onnx", "-o", tmp_path / "q.onnx", "--as-is", "--config", "BF16", "--activations",
                "none", "--form", "qoperator")
    assert operators(tmp_path / "q.onnx")["QLinearConv"] == expected

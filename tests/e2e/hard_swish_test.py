"""x * HardSigmoid(x) between integer convolutions: ONNX Runtime's CPU provider computes it on codes."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from models import QuantizedModels, save_noise
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 8, 12, 12)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """Two HardSwish between convolutions, one of them written as two operators."""
    path, rng, node = tmp_path_factory.mktemp("net") / "net.onnx", np.random.default_rng(5), helper.make_node
    weights = [numpy_helper.from_array(rng.standard_normal((8, 8, 1, 1)).astype(np.float32), f"w{i}") for i in range(3)]
    nodes = [
        node("Conv", ["x", "w0"], ["c0"]), node("HardSwish", ["c0"], ["h0"]),
        node("Conv", ["h0", "w1"], ["c1"]), node("HardSigmoid", ["c1"], ["g1"], alpha=0.25, beta=0.5), node("Mul", ["g1", "c1"], ["h1"]),
        node("Conv", ["h1", "w2"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def quantized(tmp_path_factory, bitpress, net):
    return QuantizedModels(bitpress, net, tmp_path_factory.mktemp("hard_swish"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return save_noise(tmp_path_factory.mktemp("noise") / "samples", SHAPE)


def types(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def run(path, optimized=None):
    """The output for some noise. `optimized`: where ONNX Runtime writes what it runs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(4).standard_normal(SHAPE).astype(np.float32)})[0]


def decibels(wanted, found):
    return 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum())


@pytest.mark.integers
@pytest.mark.parametrize("activations", [pytest.param("uint8", marks=pytest.mark.quick), "int8"])
def test_hard_swish_runs_on_codes(activations, net, quantized, samples, tmp_path):
    words = ["--config", "INT8", "--activations", activations, "--data", samples, "--check", "off", "--set", "guard=off"]
    path = quantized.path(*words)
    onnx.checker.check_model(path, full_check=True)
    found = run(path, tmp_path / "optimized.onnx")
    fused = types(tmp_path / "optimized.onnx")
    assert fused["QLinearConcat"] == 2 and fused["HardSigmoid"] == fused["HardSwish"] == 0
    # ONNX Runtime computes few operators on codes of signed activations if the processor is an x86 one.
    assert fused["QLinearMul"] == 2 or activations == "int8"
    as_floats = quantized.path(*words, "--disable-pass", "hard-swish-on-codes")
    assert types(as_floats)["HardSigmoid"] == 2
    wanted = run(net)
    assert decibels(wanted, found) > decibels(wanted, run(as_floats)) - 2


@pytest.mark.integers
def test_it_has_a_form_of_operators_on_codes(quantized, samples):
    words = ["--config", "INT8", "--data", samples, "--check", "off", "--set", "guard=off"]
    path = quantized.path(*words, "--form", "qoperator")
    assert types(path)["QLinearConcat"] == types(path)["QLinearMul"] == 2
    assert np.array_equal(run(path), run(quantized.path(*words)))


@pytest.mark.integers
def test_other_runtimes_get_the_operators_themselves(quantized, samples):
    path = quantized.path("--config", "INT8", "--data", samples, "--check", "off", "--set", "guard=off", "--target", "openvino")
    assert types(path)["HardSigmoid"] + types(path)["HardSwish"] == 2


@pytest.mark.integers
def test_decisions_of_such_a_model_are_those_of_its_network(bitpress, net, quantized, samples):
    words = ["--config", "INT8", "--data", samples, "--check", "off", "--set", "guard=off"]
    result = bitpress.run("plan", net, "--config", "INT8", "--import", quantized.path(*words))
    assert result.returncode == 0 and "_line" not in result.stdout + result.stderr, result.stdout + result.stderr

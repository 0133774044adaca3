"""Mixtures of experts (com.microsoft MoE): their weights take every format, and integers in blocks become a QMoE for ONNX Runtime."""

import json
from collections import Counter

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

EXPERTS, INPUTS, INNER = 4, 64, 96


def model(activation="silu", biases=False, inner=INNER):
    """A layer, and behind it two of four experts for each row."""
    rng = np.random.default_rng(11)
    first = 2 * inner if activation == "swiglu" else inner
    constants = {"up": rng.standard_normal((EXPERTS, first, INPUTS)) / 8, "down": rng.standard_normal((EXPERTS, INPUTS, inner)) / 10,
                 "router": rng.standard_normal((INPUTS, EXPERTS)) / 8, "layer": rng.standard_normal((INPUTS, INPUTS)) / 8}
    if biases:
        constants |= {"up_bias": rng.standard_normal((EXPERTS, first)), "down_bias": rng.standard_normal((EXPERTS, INPUTS))}
    of_swiglu = {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 7.0} if activation == "swiglu" else {}
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "layer"], ["rows"], "layer_mm"), node("MatMul", ["rows", "router"], ["logits"], "router_mm"),
        node("MoE", ["rows", "logits", "up", "up_bias" if biases else "", "down", "down_bias" if biases else ""], ["y"], "experts",
             domain="com.microsoft", k=2, activation_type=activation, normalize_routing_weights=1, **of_swiglu),
    ]
    graph = helper.make_graph(nodes, "moe", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", INPUTS])],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return models.save(model(), tmp_path_factory.mktemp("experts") / "moe.onnx")


def run(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(3).standard_normal((7, INPUTS)).astype(np.float32)})[0]


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("weights", ["mxfp4_e2m1", "mx6", "nvfp4", "bfp16", "fp8_e4m3", "int8", "uint4"])
def test_weights_of_experts_take_every_format(weights, path, tmp_path, bitpress):
    packed, simulated = tmp_path / "packed.onnx", tmp_path / "simulated.onnx"
    for target, storage in ((packed, "packed"), (simulated, "simulated")):
        bitpress.ok("quantize", path, "-o", target, "--config", "none", "--weights", weights, "--target", "portable", "--storage", storage,
                    "--set", "weight_granularity=per_axis")
    np.testing.assert_array_equal(run(packed), run(simulated))
    noise = models.sqnr_db(run(path), run(packed))
    assert noise > (8 if "4_" in weights or weights in ("nvfp4", "uint4") else 20)
    share = packed.stat().st_size / path.stat().st_size
    assert share < (0.3 if "4_" in weights or weights in ("nvfp4", "uint4") else 0.45), share


@pytest.mark.parametrize("activation, biases", [("silu", False), ("relu", True), ("swiglu", True)])
@pytest.mark.parametrize("weights, symmetric, level", [("int4", "true", 1), ("uint4", "false", 1), ("uint4", "false", 4), ("int8", "true", 4)])
def test_integers_in_blocks_become_a_qmoe(activation, biases, weights, symmetric, level, tmp_path, bitpress):
    source = models.save(model(activation, biases), tmp_path / "moe.onnx")
    native, portable = tmp_path / "native.onnx", tmp_path / "portable.onnx"
    for target, options in ((native, ("onnxruntime", "--accuracy-level", level)), (portable, ("portable",))):
        bitpress.ok("quantize", source, "-o", target, "--config", "INT4_WEIGHTS", "--weights", weights, "--set", f"weight_symmetric={symmetric}",
                    "--set", "weight_block_size=32", "--target", *options)
    assert operators(native) == Counter({"MatMul": 1, "MatMulNBits": 1, "QMoE": 1})  # a router of 256 elements stays float
    onnx.checker.check_model(onnx.load(native))
    wanted, found = run(portable), run(native)
    # Level 4 rounds activations to 8 bits.
    np.testing.assert_allclose(found, wanted, atol=1e-5 if level == 1 else 0.04 * np.abs(wanted).max())


def test_the_report_counts_its_products(path, tmp_path, bitpress):
    text = bitpress.checking.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS", "--target", "onnxruntime",
                                "--json", tmp_path / "q.json")
    assert "99 % from codes of weights" in text
    report = json.loads((tmp_path / "q.json").read_text())
    assert report["native"]["num_nodes"] == 2 and not report["native"]["left"]


def test_experts_that_no_qmoe_takes_are_decoded_and_named(tmp_path, bitpress):
    source = models.save(model(inner=80), tmp_path / "moe.onnx")
    texts = [bitpress.ok("quantize", source, "-o", tmp_path / f"{target}.onnx", "--config", "INT4_WEIGHTS", "--set", "weight_block_size=32",
                         "--accuracy-level", 1, "--target", target) for target in ("onnxruntime", "portable")]
    assert operators(tmp_path / "onnxruntime.onnx")["MoE"] == 1
    assert "blocks of 32 do not divide 80" in texts[0]
    np.testing.assert_allclose(run(tmp_path / "onnxruntime.onnx"), run(tmp_path / "portable.onnx"), atol=1e-5)


def test_cuda_decodes_experts(path, tmp_path, bitpress):
    """ONNX Runtime's CUDA provider has a MoE of float32, and no QMoE."""
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS", "--set", "weight_block_size=32", "--target", "cuda")
    found = operators(tmp_path / "q.onnx")
    assert found["MoE"] == 1 and "QMoE" not in found and "decoded at load: the provider computes a QMoE of float32 on the CPU" in text

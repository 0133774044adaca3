"""Mixtures of experts (com.microsoft MoE): their weights take every format, integers in blocks become a QMoE for ONNX Runtime and come back from
it, and with a product for each expert (passes=split-experts=all) they are multiplied as any layer is."""

import json
from collections import Counter

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

EXPERTS, INPUTS, INNER = 4, 64, 96


def model(activation="silu", biases=False, inner=INNER, chosen=2, normalize=1):
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
             domain="com.microsoft", k=chosen, activation_type=activation, normalize_routing_weights=normalize, **of_swiglu),
    ]
    graph = helper.make_graph(nodes, "moe", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", INPUTS])],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return models.save(model(), tmp_path_factory.mktemp("experts") / "moe.onnx")


def run(path, rows=7, library=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if library:
        options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(3).standard_normal((rows, INPUTS)).astype(np.float32)})[0]


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


@pytest.mark.parametrize("weights, symmetric", [("int4", "true"), ("uint4", "false"), ("int8", "true")])
def test_a_qmoe_comes_back_as_the_moe_of_its_weights(weights, symmetric, path, tmp_path, bitpress):
    """The floats are those that a decoder of the same weights gives, bit for bit."""
    words = ("--config", "INT4_WEIGHTS", "--weights", weights, "--set", f"weight_symmetric={symmetric}", "--set", "weight_block_size=32")
    bitpress.ok("quantize", path, "-o", tmp_path / "native.onnx", *words, "--target", "onnxruntime")
    bitpress.ok("quantize", path, "-o", tmp_path / "simulated.onnx", *words, "--target", "portable", "--storage", "simulated")
    bitpress.ok("unpack", tmp_path / "native.onnx", "-o", tmp_path / "floats.onnx")
    assert operators(tmp_path / "floats.onnx")["MoE"] == 1 and not operators(tmp_path / "floats.onnx")["QMoE"]
    np.testing.assert_array_equal(run(tmp_path / "floats.onnx"), run(tmp_path / "simulated.onnx"))
    table = bitpress.ok("inspect", tmp_path / "native.onnx", "--tensors")
    assert table.count(weights) >= 3, table  # the layer and both weights of the experts
    text = bitpress.ok("plan", path, "--config", "INT8_WEIGHTS", "--import", tmp_path / "native.onnx", "-o", tmp_path / "plan.json")
    rows = {row["value"]: row for row in json.loads((tmp_path / "plan.json").read_text())["tensors"]}
    for value in ("up", "down", "layer"):
        assert (rows[value]["format"], rows[value]["block_size"]) == (weights, 32), text
    assert rows["router"]["format"] == "none"


@pytest.mark.parametrize("bits", [4, 8])
def test_a_qmoe_of_others_with_a_scale_for_each_row_comes_back(bits, tmp_path, bitpress):
    rng = np.random.default_rng(bits)
    codes = {"up": rng.integers(0, 1 << bits, (EXPERTS, INNER, INPUTS)).astype(np.uint8), "down": rng.integers(0, 1 << bits, (EXPERTS, INPUTS, INNER)).astype(np.uint8)}
    constants = {}
    for name, values in codes.items():
        constants[f"{name}_codes"] = values[..., 0::2] | values[..., 1::2] << 4 if bits == 4 else values
        constants[f"{name}_scales"] = rng.uniform(0.01, 0.1, values.shape[:2]).astype(np.float32) / (1 << bits)
    node = helper.make_node("QMoE", ["x", "p", "up_codes", "up_scales", "", "down_codes", "down_scales"], ["y"], domain="com.microsoft", k=2,
                            activation_type="silu", normalize_routing_weights=1, expert_weight_bits=bits)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS]), helper.make_tensor_value_info("p", TensorProto.FLOAT, ["N", EXPERTS])]
    graph = helper.make_graph([node], "qmoe", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", INPUTS])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    source = models.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "qmoe.onnx")
    bitpress.ok("unpack", source, "-o", tmp_path / "floats.onnx")
    found = {constant.name: numpy_helper.to_array(constant) for constant in onnx.load(tmp_path / "floats.onnx").graph.initializer}
    for name, values in codes.items():
        wanted = (values.astype(np.float32) - (1 << (bits - 1))) * constants[f"{name}_scales"][..., None]
        np.testing.assert_array_equal(found[name], wanted)
    feeds = {"x": rng.standard_normal((5, INPUTS)).astype(np.float32), "p": rng.standard_normal((5, EXPERTS)).astype(np.float32)}
    by_codes, by_floats = (onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
                           for path in (source, tmp_path / "floats.onnx"))
    np.testing.assert_allclose(by_codes, by_floats, atol=0.02 * np.abs(by_floats).max())


SPLIT = ("--set", "passes=split-experts=all")


@pytest.mark.parametrize("activation, biases, chosen, normalize", [("relu", True, 2, 0), ("gelu", False, 2, 1), ("silu", True, 1, 0), ("identity", True, 4, 1),
                                                                  ("swiglu", True, 2, 1), ("swiglu", False, 3, 0)])
def test_split_experts_compute_the_same(activation, biases, chosen, normalize, tmp_path, bitpress):
    """With many rows, and with one, which most experts do not get."""
    source = models.save(model(activation, biases, chosen=chosen, normalize=normalize), tmp_path / "moe.onnx")
    text = bitpress.ok("quantize", source, "-o", tmp_path / "q.onnx", "--config", "none", "--weights", "mxint8", "--set", "exclude_op_types=Gemm;MatMul", *SPLIT)
    assert "1 MoE with a product for each expert" in text
    found = operators(tmp_path / "q.onnx")
    assert found["Gemm"] == 2 * EXPERTS and "MoE" not in found
    onnx.checker.check_model(onnx.load(tmp_path / "q.onnx"))
    for rows in (7, 1):
        np.testing.assert_allclose(run(tmp_path / "q.onnx", rows), run(source, rows), atol=1e-5)


def test_a_third_weight_is_split_too(tmp_path, bitpress):
    """No kernel of ONNX Runtime's CPU provider computes it, so that the formula of a gated layer decides."""
    gated, rng = model("silu", biases=True, chosen=2, normalize=1), np.random.default_rng(5)
    values = {"gate": rng.standard_normal((EXPERTS, INNER, INPUTS)) / 8, "gate_bias": rng.standard_normal((EXPERTS, INNER))}
    gated.graph.initializer.extend(numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items())
    gated.graph.node[2].input.extend(values)
    onnx.save(gated, tmp_path / "gated.onnx")
    bitpress.ok("quantize", tmp_path / "gated.onnx", "-o", tmp_path / "q.onnx", "--config", "none", "--weights", "mxint8", "--set",
                "exclude_op_types=Gemm;MatMul", *SPLIT)
    assert operators(tmp_path / "q.onnx")["Gemm"] == 3 * EXPERTS
    constants = {constant.name: numpy_helper.to_array(constant).astype(np.float64) for constant in gated.graph.initializer}
    rows = np.random.default_rng(3).standard_normal((7, INPUTS)).astype(np.float32) @ constants["layer"]
    logits, wanted = rows @ constants["router"], np.zeros((7, INPUTS))
    for i, row in enumerate(rows):
        chosen = np.argsort(-logits[i])[:2]
        for expert, share in zip(chosen, np.exp(logits[i][chosen]) / np.exp(logits[i][chosen]).sum(), strict=True):
            up, gate, down = ({"h": constants[name][expert], "b": constants[f"{name}_bias"][expert]} for name in ("up", "gate", "down"))
            h = up["h"] @ row + up["b"]
            wanted[i] += share * (down["h"] @ (h / (1 + np.exp(-h)) * (gate["h"] @ row + gate["b"])) + down["b"])
    np.testing.assert_allclose(run(tmp_path / "q.onnx"), wanted, atol=1e-4)


def test_experts_of_float16_stay_and_are_named(tmp_path, bitpress):
    half = model()
    for constant in half.graph.initializer:
        constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant).astype(np.float16), constant.name))
    for value in (*half.graph.input, *half.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(half, tmp_path / "half.onnx")
    result = bitpress.run("quantize", tmp_path / "half.onnx", "-o", tmp_path / "q.onnx", "--config", "none", "--weights", "mxint8", *SPLIT)
    assert "'up' is FLOAT16, and only FLOAT is split" in result.stdout + result.stderr, result.stdout + result.stderr


@pytest.mark.parametrize("weights, activations", [("mxfp4_e2m1", "none"), ("mxfp4_e2m1", "mxfp4_e2m1"), ("mx6", "mx6"), ("mxint8", "none")])
def test_split_experts_multiply_from_codes_of_blocks(weights, activations, path, tmp_path, bitpress, operator_library):
    words = ("--config", "none", "--weights", weights, "--activations", activations)
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", *words, *SPLIT)
    found = operators(tmp_path / "q.onnx")
    assert found[f"MatMul_{weights}"] >= 2 * EXPERTS and not found["Gemm"]
    bitpress.ok("quantize", path, "-o", tmp_path / "s.onnx", *words, *SPLIT, "--storage", "simulated")
    for rows in (7, 1):
        np.testing.assert_allclose(run(tmp_path / "q.onnx", rows, operator_library), run(tmp_path / "s.onnx", rows, operator_library), atol=1e-4)


def test_split_experts_take_integers_of_both_sides(path, tmp_path, bitpress):
    (tmp_path / "samples").mkdir()
    for i, rows in enumerate(np.random.default_rng(1).standard_normal((8, 16, INPUTS)).astype(np.float32)):
        np.save(tmp_path / "samples" / f"{i}.npy", rows)
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--set", "guard=off", "--data", tmp_path / "samples", *SPLIT)
    found = operators(tmp_path / "q.onnx")
    assert found["QuantizeLinear"] >= EXPERTS
    assert models.sqnr_db(run(path), run(tmp_path / "q.onnx")) > 20


def test_experts_that_stay_are_named(path, tmp_path, bitpress):
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "MXFP4E2M1")
    assert "MoE reads it (--set passes=split-experts=all multiplies from the codes)" in text
    other = model(biases=True)
    other.graph.initializer.remove(next(constant for constant in other.graph.initializer if constant.name == "up_bias"))
    other.graph.input.append(helper.make_tensor_value_info("up_bias", TensorProto.FLOAT, [EXPERTS, INNER]))
    source = models.save(other, tmp_path / "other.onnx")
    text = bitpress.ok("quantize", source, "-o", tmp_path / "o.onnx", "--config", "MXFP4E2M1", "--activations", "none", "--verbose", *SPLIT)
    assert "'up_bias' is no constant" in text


@pytest.mark.parametrize("chosen, experts, reason", [(2, EXPERTS - 1, "'down' has other sizes than the weight"), (EXPERTS + 1, EXPERTS, "it chooses 5 of 4 experts")])
def test_experts_of_wrong_sizes_stay_and_are_named(chosen, experts, reason, tmp_path, bitpress):
    wrong = model(chosen=chosen)
    down = next(constant for constant in wrong.graph.initializer if constant.name == "down")
    down.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(down)[:experts], "down"))
    source = tmp_path / "wrong.onnx"
    onnx.save(wrong, source)
    result = bitpress.run("quantize", source, "-o", tmp_path / "q.onnx", "--config", "MXFP4E2M1", "--activations", "none", *SPLIT)
    assert reason in result.stdout + result.stderr, result.stdout + result.stderr

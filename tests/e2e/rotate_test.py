"""rotate turns the inputs of products and their weights by a Hadamard matrix: the model computes the same, and four bits lose less."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import decoder
import models


def two_layers():
    """A MatMul, a Gemm with transB, both of one value with large elements in few channels, and what cannot be rotated."""
    rng = np.random.default_rng(4)
    constants = {name: (rng.standard_normal(shape) / 8).astype(np.float32)
                 for name, shape in (("w", (64, 48)), ("g", (24, 64)), ("odd", (48, 20)), ("last", (20, 10)))}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="first"),
             helper.make_node("Gemm", ["x", "g"], ["z"], name="second", transB=1),
             helper.make_node("MatMul", ["y", "odd"], ["v"], name="third"),
             helper.make_node("MatMul", ["v", "last"], ["u"], name="fourth")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("u", 10), ("z", 24))],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def with_outliers(count):
    x = np.random.default_rng(6).standard_normal((count, 64)).astype(np.float32)
    x[:, [3, 40]] *= 30
    return x


@pytest.fixture
def float_path(tmp_path):
    return models.save(two_layers(), tmp_path / "float.onnx")


@pytest.mark.quick
def test_the_model_computes_the_same(float_path, tmp_path, bitpress, run_model):
    path = tmp_path / "rotated.onnx"
    text = bitpress.ok("quantize", float_path, "-o", path, "--config", "MX9", "--weights", "none", "--activations", "none", "--set", "rotate=16")
    assert "rotated:     3 layers in blocks of 16, which read 2 values; left alone 1" in text
    assert "not MatMul 'fourth': 20 inputs are not whole blocks of 16" in text
    model = onnx.load(path)
    assert [node.op_type for node in model.graph.node].count("Rotate_16") == 2
    onnx.checker.check_model(model, full_check=True)
    x = {"x": with_outliers(7)}
    for wanted, found in zip(run_model(float_path, x), run_model(path, x)):
        np.testing.assert_allclose(found, wanted, atol=2e-4)
    # The rows of the weight are turned, and turning them again gives them back.
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    hadamard = np.array([[(-1) ** bin(i & k).count("1") for k in range(16)] for i in range(16)]) / 4
    original = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(float_path).graph.initializer}
    turned = np.kron(np.eye(4), hadamard) @ original["w"].astype(np.float64)
    np.testing.assert_allclose(weights["w"], turned, atol=1e-7)
    np.testing.assert_allclose(weights["g"], original["g"].astype(np.float64) @ np.kron(np.eye(4), hadamard), atol=1e-7)
    np.testing.assert_array_equal(weights["last"], original["last"])


@pytest.mark.parametrize("target", ["portable", "bitpress"])
def test_four_bits_lose_less(float_path, tmp_path, bitpress, target):
    samples = models.save_arrays(tmp_path / "samples", [with_outliers(64)])
    losses = []
    for setting in ("rotate=off", "rotate=32"):
        path, page = tmp_path / f"{setting}.onnx", tmp_path / f"{setting}.json"
        bitpress.ok("quantize", float_path, "-o", path, "--config", "MXFP4E2M1", "--set", setting, "--target", target)
        bitpress.ok("evaluate", path, "--reference", float_path, "--data", samples, "--json", page)
        losses.append(json.loads(page.read_text())["sqnr_db"])
    assert losses[1] > losses[0] + 1.5


def test_every_step_knows_rotations(float_path, tmp_path, bitpress):
    data = ["--data", models.save_arrays(tmp_path / "samples", [with_outliers(40)])]
    stats, plan, path = tmp_path / "stats.bpc", tmp_path / "plan.json", tmp_path / "out.onnx"
    bitpress.ok("plan", float_path, "--config", "INT8", "--set", "rotate=16", "-o", plan)
    assert json.loads(plan.read_text())["rotate"] == 16
    bitpress.ok("calibrate", float_path, *data, "--config", "INT8", "--set", "rotate=16", "-o", stats)
    bitpress.ok("quantize", float_path, "-o", path, "--plan", plan, "--calibration", stats)
    assert any(node.op_type == "Rotate_16" for node in onnx.load(path).graph.node)
    error = bitpress.error("quantize", float_path, "-o", path, "--config", "INT8", "--calibration", stats)
    assert "settings of equalize and rotate" in error and "inputs are not rotated" in error
    bitpress.ok("quantize", float_path, "-o", path, "--config", "MXFP4E2M1", "--set", "rotate=32", "--finetune", "gptq", *data)
    bitpress.ok("report", path, "--reference", float_path, "-o", tmp_path / "page.html", *data)
    bitpress.ok("unpack", path, "-o", tmp_path / "floats.onnx")
    assert "rotate" in bitpress.error("quantize", float_path, "-o", path, "--config", "MX6", "--set", "rotate=24")
    assert "rotate" in bitpress.error("quantize", float_path, "-o", path, "--config", "MX6", "--rule", "op_types=MatMul: rotate=16")


def test_old_models_are_packed_too(tmp_path, bitpress):
    model = two_layers()
    model.opset_import[0].version = 12
    source, path = models.save(model, tmp_path / "old.onnx"), tmp_path / "out.onnx"
    text = bitpress.ok("quantize", source, "-o", path, "--config", "MXFP4E2M1", "--set", "rotate=32")
    assert "could not be converted" not in text
    assert any(node.op_type.startswith("MatMul_mxfp4_e2m1") for node in onnx.load(path).graph.node)


def test_a_value_without_rows_keeps_its_shape(float_path, tmp_path, bitpress, run_model):
    path = tmp_path / "out.onnx"
    bitpress.ok("quantize", float_path, "-o", path, "--config", "MX6", "--set", "rotate=16")
    assert run_model(path, {"x": np.zeros((0, 64), np.float32)})[0].shape == (0, 10)


def test_weights_that_are_outputs_stay(tmp_path, bitpress):
    model = two_layers()
    model.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 48]))
    source = models.save(model, tmp_path / "output.onnx")
    text = bitpress.ok("quantize", source, "-o", tmp_path / "out.onnx", "--config", "MX6", "--weights", "none", "--set", "rotate=16")
    assert "not MatMul 'first': its weight has other readers" in text


def test_a_pass_can_be_left_out(float_path, tmp_path, bitpress):
    path = tmp_path / "out.onnx"
    bitpress.ok("quantize", float_path, "-o", path, "--config", "MX6", "--set", "rotate=16", "--disable-pass", "rotate")
    assert not any(node.op_type.startswith("Rotate") for node in onnx.load(path).graph.node)


def test_a_decoder_keeps_its_roles(tmp_path, bitpress):
    source, plan = tmp_path / "decoder.onnx", tmp_path / "plan.json"
    models.save(decoder.make(), source)
    bitpress.ok("plan", source, "--config", "MXFP4E2M1", "--set", "rotate=32", "--rule", "roles=attn_v layers=1: weights=mx9", "-o", plan)
    formats = {row["value"]: row.get("format") for row in json.loads(plan.read_text())["tensors"] if row["role"] == "weight"}
    assert [name for name, kind in formats.items() if kind == "mx9"] == ["l1.v.weight"]

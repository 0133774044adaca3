"""A target gives a configuration its settings, which is said, and refuses what it does not take."""

import json

import models
import numpy as np
import onnx
import pytest


@pytest.fixture(name="samples")
def made_samples(tmp_path):
    return models.save_noise(tmp_path / "samples", (1, *models.CONV_INPUT), 8)


def test_settings_of_a_target_are_said_and_written(bitpress, conv_path, samples, tmp_path):
    output, report = tmp_path / "q.onnx", tmp_path / "q.json"
    text = bitpress.ok("quantize", conv_path, "-o", output, "--config", "INT8", "--target", "tensorrt", "--data", samples, "--json", report)
    settings = json.loads(report.read_text())["target_settings"]
    assert "activations=int8" in settings and f"target tensorrt: {', '.join(settings)}" in text
    zero_points = [onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(output).graph.initializer if "zero_point" in tensor.name]
    assert zero_points and all(array.dtype == np.int8 and not array.any() for array in zero_points)


def test_a_plan_is_not_changed_by_a_target(bitpress, conv_path, samples, tmp_path):
    plan, report = tmp_path / "plan.json", tmp_path / "q.json"
    bitpress.ok("plan", conv_path, "--config", "INT8", "--target", "tensorrt", "-o", plan)
    text = bitpress.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", "--plan", plan, "--target", "tensorrt", "--data", samples, "--json", report)
    assert json.loads(report.read_text())["target_settings"] == [] and "target tensorrt:" not in text


def test_models_for_cuda_hold_what_its_provider_computes(bitpress, conv_path, samples, tmp_path):
    """No product of ours, which would run on the CPU, and no word on the time here."""
    output = tmp_path / "q.onnx"
    text = bitpress.checking.ok("quantize", conv_path, "-o", output, "--config", "MX6", "--target", "cuda", "--data", samples)
    operators = {node.op_type for node in onnx.load(output).graph.node}
    assert "Conv" in operators and "QuantizeDequantize_mx6" in operators
    assert not any(name.startswith(("MatMul_", "MatMulClip_", "Conv_")) for name in operators)
    assert "says nothing of a session on CUDA" in text and "slower than" not in text
    error = bitpress.error("quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", "INT8_DYNAMIC", "--target", "cuda")
    assert "target cuda does not take the plan" in error and "MatMulInteger" in error


@pytest.mark.parametrize("config", ["INT8", "INT8_DYNAMIC", "A16W8"])
def test_models_for_openvino_hold_no_functions(bitpress, conv_path, samples, tmp_path, config):
    """It expands none. The graph stands in front of the operator sets, by which it knows an ONNX file."""
    output = tmp_path / "q.onnx"
    bitpress.ok("quantize", conv_path, "-o", output, "--config", config, "--target", "openvino", "--data", samples)
    model = onnx.load(output)
    assert not model.functions and all(node.domain in ("", "ai.onnx") for node in model.graph.node)
    assert output.read_bytes().startswith(model.SerializeToString()[:16])
    error = bitpress.error("quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", "MX6", "--target", "openvino")
    assert "target openvino does not take the plan" in error and "format mx6" in error


@pytest.mark.parametrize("command", ["plan", "quantize"])
def test_what_a_target_does_not_take_is_named(bitpress, conv_path, tmp_path, command):
    error = bitpress.error(command, conv_path, "-o", tmp_path / "out", "--config", "MX6", "--target", "tensorrt")
    assert "target tensorrt does not take the plan" in error and "format mx6" in error and "Conv" in error
    assert not (tmp_path / "out").exists()


def test_any_model_is_checked_by_the_rules_of_a_target(bitpress, conv_path, samples, tmp_path):
    """Each tensor and node that breaks one, with the rule and its source."""
    quantized, dynamic = tmp_path / "int8.onnx", tmp_path / "dynamic.onnx"
    bitpress.ok("quantize", conv_path, "-o", quantized, "--config", "INT8", "--data", samples)
    bitpress.ok("quantize", conv_path, "-o", dynamic, "--config", "INT8_DYNAMIC")
    report = tmp_path / "report.json"
    assert bitpress.run("check", quantized, "--target", "openvino", "--json", report).returncode == 0
    assert json.loads(report.read_text())["broken_rules"] == []
    refused = bitpress.run("check", quantized, "--target", "tensorrt", "--json", report)
    broken = json.loads(report.read_text())["broken_rules"]
    assert refused.returncode != 0 and broken and all("TensorRT" in rule for rule in broken)
    assert any("format uint8" in rule and "Conv" in rule for rule in broken) and f"breaks {len(broken)} rules of target tensorrt" in refused.stderr
    refused = bitpress.run("check", dynamic, "--target", "cuda")
    assert refused.returncode != 0 and "MatMulInteger" in refused.stderr and "on the CPU, between two copies" in refused.stderr


def test_scales_keep_the_shifts_of_an_npu(bitpress, tmp_path):
    """Outputs that are far larger than the products, because of a bias, need a larger scale of the weight."""
    rng = np.random.default_rng(2)
    constants = {"w1": rng.standard_normal((16, 16)) / 3, "b1": np.full(16, 5000.0), "w2": rng.standard_normal((16, 8)) / 3, "b2": np.zeros(8)}
    nodes = [onnx.helper.make_node("Gemm", ["x", "w1", "b1"], ["g"], "first"), onnx.helper.make_node("Relu", ["g"], ["r"], "relu"),
             onnx.helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], "second")]
    source = models.save(models.make_model(nodes, [("x", (4, 16))], [("y", (4, 8))], {name: value.astype(np.float32) for name, value in constants.items()}),
                         tmp_path / "net.onnx")
    samples = models.save_noise(tmp_path / "samples", (4, 16), 8)
    broken = {}
    for target in ("portable", "ryzenai"):
        model, report = tmp_path / f"{target}.onnx", tmp_path / f"{target}.json"
        text = bitpress.ok("quantize", source, "-o", model, "--config", "XINT8", "--target", target, "--data", samples, "--json", report)
        sentences = json.loads(report.read_text())["target_scales"]
        assert bool(sentences) == (target == "ryzenai") and all(f"target {target}: {sentence}" in text for sentence in sentences)
        bitpress.run("check", model, "--target", "ryzenai", "--json", report)
        broken[target] = [rule for rule in json.loads(report.read_text())["broken_rules"] if "limits of shift" in rule]
    assert any("products that are shifted by 18 bits" in rule for rule in broken["portable"]) and not broken["ryzenai"], broken
    assert any("the scale of weight 'w1' is 2^" in sentence for sentence in sentences), sentences

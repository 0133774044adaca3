"""`plan --import` and `--export`: what other quantizers decided, in a plan and back."""

import json

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.items = iter([{"image": np.load(path)} for path in sorted(samples.glob("*.npy"))])

    def get_next(self):
        return next(self.items, None)


@pytest.fixture
def theirs(tmp_path, conv_path):
    """The network without BatchNorm, and as ONNX Runtime's own tool quantizes it."""
    samples = models.save_noise(tmp_path / "samples", (1, 3, 20, 20), 8)
    prepared, quantized = tmp_path / "prepared.onnx", tmp_path / "quantized.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(prepared)
    onnxruntime.InferenceSession(conv_path, options)
    quantize_static(prepared, quantized, Reader(samples), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8)
    return prepared, quantized


def parameters(path):
    """Codes, scale and zero point of the weight of each product, and scale and zero point of each activation."""
    graph = onnx.load(path).graph
    values = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    weights, activations = {}, {}
    for node in graph.node:
        pair = producers.get(node.input[1]) if node.op_type in ("Conv", "Gemm", "MatMul") else None
        if pair is not None:
            weights[node.name] = [values[name] for name in pair.input[:2]]
        if node.op_type == "QuantizeLinear":
            activations[node.input[0]] = [values[name].item() for name in node.input[1:]]
    return weights, activations


def test_a_model_is_made_again_as_another_tool_made_it(bitpress, theirs, tmp_path):
    """Equal codes, scales and zero points, without samples."""
    prepared, quantized = theirs
    plan, output = tmp_path / "plan.json", tmp_path / "ours.onnx"
    bitpress.ok("plan", prepared, "--config", "INT8", "--import", quantized, "-o", plan)
    bitpress.ok("quantize", prepared, "--plan", plan, "-o", output)
    (weights, activations), (our_weights, our_activations) = parameters(quantized), parameters(output)
    assert len(our_weights) > 2 and set(our_weights) <= set(weights)
    for name, given in our_weights.items():
        assert all(np.array_equal(a, b) for a, b in zip(given, weights[name])), name
    assert len(our_activations) > 2 and all(activations[name] == given for name, given in our_activations.items())


@pytest.mark.parametrize("kind", ["aimet-0.6.1", "aimet-1.0.0", "aimet-2.0.0", "onnxruntime"])
def test_the_same_through_a_file(bitpress, theirs, tmp_path, kind):
    prepared, quantized = theirs
    decisions, plan = tmp_path / "decisions.json", tmp_path / "plan.json"
    bitpress.ok("plan", quantized, "--export", kind, "-o", decisions)
    bitpress.ok("plan", prepared, "--config", "INT8", "--import", decisions, "-o", plan)
    direct = tmp_path / "direct.json"
    bitpress.ok("plan", prepared, "--config", "INT8", "--import", quantized, "-o", direct)
    named = {row["value"]: row for row in json.loads(plan.read_text())["tensors"]}
    for row in json.loads(direct.read_text())["tensors"]:
        if row["role"] == "activation" and "scale" in row:
            assert named[row["value"]]["scale"] == pytest.approx(row["scale"]) and named[row["value"]].get("zero_point") == row.get("zero_point")


def test_what_an_import_does_not_take_is_said(bitpress, conv_path, tmp_path):
    decisions = tmp_path / "model.encodings"
    decisions.write_text(json.dumps({"version": "1.0.0", "param_encodings": [], "activation_encodings": [
        {"name": "image", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": False, "scale": [0.02], "offset": [-128]},
        {"name": "nowhere", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": False, "scale": [0.02], "offset": [-128]}]}))
    done = bitpress.run("plan", conv_path, "--config", "INT8", "--import", decisions, "-o", tmp_path / "plan.json")
    assert done.returncode == 0 and "'nowhere'" in done.stderr and "stay float, because the file does not name them" in done.stderr
    row, *others = json.loads((tmp_path / "plan.json").read_text())["tensors"]
    assert row["value"] == "image" and row["scale"] == pytest.approx(0.02) and all(other["format"] == "none" for other in others)
    assert "--config" in bitpress.error("plan", conv_path, "-o", tmp_path / "p.json")
    decisions.write_text("[1]")
    assert "TensorQuantOverrides" in bitpress.error("plan", conv_path, "--config", "INT8", "--import", decisions)

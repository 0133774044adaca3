"""Passes by name: one that is switched off does not run, an unknown one is told with the nearest."""

import models
import numpy as np
import onnx
import onnxruntime
import pytest


@pytest.fixture
def model(tmp_path):
    return models.save(models.conv_model(), tmp_path / "model.onnx")


def test_a_pass_that_is_switched_off_does_not_run(bitpress, model, tmp_path):
    out = tmp_path / "out.onnx"
    bitpress.ok("quantize", model, "-o", out, "--config", "MX6", "--check", "off")
    assert any(node.domain == "bitpress" and "Quantize" in node.op_type for node in onnx.load(out).graph.node)
    said = bitpress.ok("quantize", model, "-o", out, "--config", "MX6", "--check", "off", "--disable-pass", "insert-quantizers",
                       "--disable-pass", "add-portable-functions")
    assert "pass insert-quantizers was switched off" in said
    written = onnx.load(out)
    assert not any("QuantizeDequantize" in node.op_type for node in written.graph.node)
    assert not any(function.name.startswith("QuantizeDequantize") for function in written.functions)


@pytest.mark.parametrize("command", ["plan", "quantize", "calibrate", "optimize"])
def test_every_command_with_passes_knows_their_names(bitpress, model, tmp_path, command):
    arguments = {"plan": ["--config", "MX6"], "quantize": ["--config", "MX6"], "calibrate": ["--data", tmp_path], "optimize": []}
    message = bitpress.error(command, model, "-o", tmp_path / "out", *arguments[command], "--disable-pass", "equalise")
    assert "there is no pass 'equalise' (did you mean 'equalize'?)" in message, message
    assert not (tmp_path / "out").exists()


def test_passes_that_need_samples_name_themselves_and_can_be_switched_off(bitpress, model, tmp_path):
    out = tmp_path / "out.onnx"
    for name, setting in (("finetune", "finetune=gptq"), ("smooth", "smooth_quant=0.5")):
        command = ("quantize", model, "-o", out, "--config", "INT8_WEIGHTS", "--check", "off", "--set", setting)
        message = bitpress.error(*command)
        assert f"pass {name}: " in message and "--data" in message, message
        assert f"pass {name} was switched off" in bitpress.ok(*command, "--disable-pass", name)


def image_network(path):
    rng = np.random.default_rng(2)
    constants = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "v": rng.standard_normal((8, 4)).astype(np.float32)}
    nodes = [onnx.helper.make_node("Conv", ["image", "w"], ["h"], "conv"), onnx.helper.make_node("ReduceMean", ["h"], ["m"], "mean", axes=[2, 3], keepdims=0),
             onnx.helper.make_node("MatMul", ["m", "v"], ["p"], "head"), onnx.helper.make_node("Add", ["p", "bias"], ["y"], "add")]
    return models.save(models.make_model(nodes, [("image", ["batch", 3, "height", "width"]), ("bias", ["batch", 4])], [("y", ["batch", 4])], constants), path)


def run(path, feeds):
    """Without the operator library, which has a sanitizer in some builds, and Python none."""
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def sizes(path):
    graph = onnx.load(path).graph
    return {value.name: [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in (*graph.input, *graph.output)}


@pytest.mark.parametrize("request_, image, rows", [
    ("image:1x3x16x20", [1, 3, 16, 20], [1, 4]), ("batch:2", [2, 3, "height", "width"], [2, 4]), ("batch:1, height:8,width:8", [1, 3, 8, 8], [1, 4])])
def test_open_dimensions_get_sizes(request_, image, rows, bitpress, tmp_path):
    source, target = image_network(tmp_path / "model.onnx"), tmp_path / "q.onnx"
    bitpress.ok("quantize", source, "-o", target, "--config", "MXINT8", "--activations", "none", "--target", "portable", "--set", f"passes=fix-shapes={request_}")
    assert sizes(target) == {"image": image, "bias": rows, "y": rows}
    x = {"image": np.ones([size if isinstance(size, int) else 9 for size in image], np.float32), "bias": np.ones(rows, np.float32)}
    np.testing.assert_allclose(run(target, x), run(source, x), atol=0.3)
    plan = tmp_path / "plan.json"
    bitpress.ok("plan", source, "--config", "MXINT8", "--set", f"passes=fix-shapes={request_}", "-o", plan)
    bitpress.ok("quantize", source, "-o", tmp_path / "p.onnx", "--plan", plan)
    assert sizes(tmp_path / "p.onnx") == sizes(target)


@pytest.mark.parametrize("request_, error", [
    ("imag:1x3x8x8", "'imag' is neither an input nor the name of a dimension"), ("image:1x4x8x8", "dimension 1 of input 'image' is 3, not 4"),
    ("image:1x3x8", "input 'image' has 4 dimensions, not 3"), ("image:1x3x8xa", "is not of the form"), ("image", "is not of the form"),
    ("image:1x3x8x8,bias:2x4", "dimension 'batch' is"), ("batch:0", "is not of the form")])
def test_sizes_that_do_not_fit_are_one_error(request_, error, bitpress, tmp_path):
    source = image_network(tmp_path / "model.onnx")
    assert error in bitpress.error("quantize", source, "-o", tmp_path / "q.onnx", "--config", "MXINT8", "--set", f"passes=fix-shapes={request_}")


def test_inputs_take_channels_last(bitpress, tmp_path):
    source, target = image_network(tmp_path / "model.onnx"), tmp_path / "q.onnx"
    text = bitpress.ok("quantize", source, "-o", target, "--config", "MXINT8", "--activations", "none", "--set", "passes=nhwc-inputs=all;fix-shapes=batch:1")
    assert "1 with channels last" in text
    assert sizes(target)["image"] == [1, "height", "width", 3]
    image, bias = np.random.default_rng(1).standard_normal((1, 3, 9, 7)).astype(np.float32), np.ones((1, 4), np.float32)
    np.testing.assert_allclose(run(target, {"image": image.transpose(0, 2, 3, 1), "bias": bias}),
                               run(source, {"image": image, "bias": bias}), atol=0.3)

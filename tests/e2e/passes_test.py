"""Passes by name: one that is switched off does not run, an unknown one is told with the nearest."""

import models
import onnx
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

"""AWQ and the clip search make weight-only models of few bits more accurate."""

import models
import numpy as np
import onnx
import pytest
from models import is_as_measured, sqnr_db
from onnx import helper


@pytest.fixture
def uneven_path(tmp_path):
    """A model that AWQ is made for: two products read a normalized sequence whose channels differ a hundredfold."""
    rng = np.random.default_rng(8)
    constants = {
        "scale": np.exp(rng.uniform(-3, 2, 64)).astype(np.float32),
        "shift": rng.standard_normal(64).astype(np.float32) / 4,
        "up": (rng.standard_normal((64, 96)) / 8).astype(np.float32),
        "side": (rng.standard_normal((64, 32)) / 8).astype(np.float32),
        "up_bias": rng.standard_normal(96).astype(np.float32),
    }
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"], "norm"),
        helper.make_node("MatMul", ["n", "up"], ["u"], "make_up"),
        helper.make_node("Add", ["u", "up_bias"], ["y"], "add_up"),
        helper.make_node("MatMul", ["n", "side"], ["z"], "make_side"),
    ]
    shapes = [("y", [1, "T", 96]), ("z", [1, "T", 32])]
    model = models.make_model(nodes, [("x", [1, "T", 64])], shapes, constants)
    samples = models.save_arrays(tmp_path / "uneven", rng.standard_normal((16, 1, 40, 64)).astype(np.float32))
    return models.save(model, tmp_path / "uneven.onnx"), samples


def test_awq_and_clip_search_help_weight_only(uneven_path, tmp_path, bitpress, run_model):
    path, samples = uneven_path
    inputs = {"x": np.random.default_rng(77).standard_normal((1, 200, 64)).astype(np.float32)}
    wanted = run_model(path, inputs)[0]
    found = {}
    for recipe in ("none", "clip_search", "awq", "awq+gptq+bias_correction"):
        output = tmp_path / "q.onnx"
        text = bitpress.ok("quantize", path, "-o", output, "--config", "INT4_WEIGHTS", "--data", samples, "--finetune", recipe)
        onnx.checker.check_model(output, full_check=True)
        found[recipe] = sqnr_db(wanted, run_model(output, inputs)[0])
        if "awq" in recipe:
            assert "awq:" in text and "1 activations, 1 folded into what comes before, 0 by a Mul" in text
    assert found["clip_search"] > found["none"] + 0.1
    assert found["awq"] > found["clip_search"] + 0.5
    assert found["awq+gptq+bias_correction"] > found["none"] + 1


def test_awq_leaves_quantized_activations_alone(uneven_path, tmp_path, bitpress):
    path, samples = uneven_path
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "MXINT8", "--data", samples, "--finetune", "awq")
    assert "0 activations" in text


@pytest.mark.quick
def test_awq_by_a_mul_with_native_operators(uneven_path, tmp_path, bitpress, run_model):
    """The normalized sequence is an output too, so that no factor can be folded into the nodes before it."""
    path, samples = uneven_path
    model = onnx.load(path)
    model.graph.output.append(helper.make_tensor_value_info("n", onnx.TensorProto.FLOAT, [1, "T", 64]))
    onnx.save(model, path)
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS", "--target", "onnxruntime",
                       "--data", samples, "--finetune", "awq")
    assert "0 folded into what comes before, 1 by a Mul" in text
    inputs = {"x": np.random.default_rng(77).standard_normal((1, 200, 64)).astype(np.float32)}
    wanted, found = run_model(path, inputs), run_model(tmp_path / "q.onnx", inputs)
    assert is_as_measured(sqnr_db(wanted[0], found[0]), 27.3)
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-5, atol=1e-5)

"""Models that ONNX Runtime optimized and saved: its fused operators have types, and what is bound to one machine is said."""

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from models import make_model, save, sqnr_db
from onnx import helper


def network():
    rng = np.random.default_rng(3)
    weights = {"w0": (rng.standard_normal((16, 3, 3, 3)) / 5).astype(np.float32), "b0": (rng.standard_normal(16) / 5).astype(np.float32),
               "w1": (rng.standard_normal((16, 16, 3, 3)) / 12).astype(np.float32), "b1": (rng.standard_normal(16) / 5).astype(np.float32),
               "head": (rng.standard_normal((16, 8)) / 4).astype(np.float32)}
    node = helper.make_node
    nodes = [node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", pads=[1] * 4), node("Relu", ["c0"], ["r0"], "relu0"),
             node("Conv", ["r0", "w1", "b1"], ["c1"], "conv1", pads=[1] * 4), node("LeakyRelu", ["c1"], ["r1"], "relu1", alpha=0.1),
             node("GlobalAveragePool", ["r1"], ["p"], "pool"), node("Flatten", ["p"], ["f"], "flat"), node("MatMul", ["f", "head"], ["y"], "head")]
    return make_model(nodes, [("x", ["N", 3, 16, 16])], [("y", ["N", 8])], weights)


def optimized(folder, level):
    given = save(network(), folder / "given.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(str(given), options, providers=["CPUExecutionProvider"])
    return given, folder / "optimized.onnx"


@pytest.mark.parametrize("config, least_db", [("INT8", 25), ("INT8_DYNAMIC", 25), ("INT4_WEIGHTS", 12), ("MX9", 35), ("FP16", 50)])
def test_fused_operators_have_types(bitpress, run_model, tmp_path, config, least_db):
    given, path = optimized(tmp_path, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    assert "FusedConv" in [node.op_type for node in onnx.load(path).graph.node]
    samples = models.save_noise(tmp_path / "samples", [1, 3, 16, 16], 8)
    text = bitpress.checking.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", config, "--data", samples)
    assert "DOES NOT LOAD" not in text
    x = np.load(sorted(samples.iterdir())[0])
    assert sqnr_db(run_model(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]) > least_db


@pytest.mark.parametrize("config", ["INT8", "MX9"])
def test_the_layout_of_one_machine_is_said(bitpress, run_model, tmp_path, config):
    given, path = optimized(tmp_path, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    if "com.microsoft.nchwc" not in {node.domain for node in onnx.load(path).graph.node}:
        pytest.skip("this machine has no such layout")
    samples = models.save_noise(tmp_path / "samples", [1, 3, 16, 16], 8)
    text = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", config, "--data", samples)
    assert "layout" in text
    x = np.load(sorted(samples.iterdir())[0])
    assert sqnr_db(run_model(given, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0]) > 25

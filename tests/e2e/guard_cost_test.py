"""The guard costs about what the quantization costs, weighs weights as well as activations, and ends with a model that is fast or accurate."""

import json

import numpy as np
import pytest
from models import make_model, save, save_arrays, sqnr_db
from onnx import helper

node = helper.make_node


def quantize(bitpress, folder, model, samples, *words):
    """Returns the guard's report, and the path of the quantized model."""
    path, report = folder / "q.onnx", folder / "q.json"
    bitpress.ok("quantize", model, "-o", path, "--config", "INT8", "--data", samples, "--json", report, *words)
    return json.loads(report.read_text()), path


def deep_network(num_layers=24, size=128, channels=16):
    """Layers with SiLU, whose roundings all bring a little. Eight bits hold the weights exactly, so that activations alone are to blame."""
    rng = np.random.default_rng(3)
    nodes, weights, last, inputs = [], {}, "x", 3
    for k in range(num_layers):
        weight = rng.standard_normal((channels, inputs, 3, 3)) ** 3
        step = np.abs(weight).max(axis=(1, 2, 3), keepdims=True) / 127
        weights[f"w{k}"] = (np.round(weight / step) * step * 0.25 / np.sqrt(inputs)).astype(np.float32)
        nodes += [node("Conv", [last, f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1] * 4), node("Sigmoid", [f"c{k}"], [f"s{k}"], f"sigmoid{k}"),
                  node("Mul", [f"c{k}", f"s{k}"], [f"y{k}"], f"mul{k}")]
        last, inputs = f"y{k}", channels
    nodes[-1].output[0] = "y"
    return make_model(nodes, [("x", [1, 3, size, size])], [("y", [1, channels, size, size])], weights)


def difference_network():
    """A regressor whose output is a small difference of large terms: rounding its weights costs what rounding its activations costs."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((400, 2)).astype(np.float32)
    layers = {"w1": rng.standard_normal((2, 64)), "b1": rng.standard_normal(64), "w2": rng.standard_normal((64, 64)) / 8, "b2": rng.standard_normal(64)}
    hidden = np.maximum(np.maximum(x @ layers["w1"] + layers["b1"], 0) @ layers["w2"] + layers["b2"], 0)
    weight = np.linalg.lstsq(hidden.T @ hidden + 1e-3 * np.eye(64), hidden.T @ (np.sin(x[:, 0]) * 0.3), rcond=None)[0]
    large = np.linalg.svd(hidden, full_matrices=False)[2][-20:-8].T @ rng.standard_normal(12)
    layers["w3"] = (weight + 4 * large / np.abs(large).max())[:, None]
    nodes = [node("MatMul", ["x", "w1"], ["a"], "m1"), node("Add", ["a", "b1"], ["a1"], "add1"), node("Relu", ["a1"], ["a2"], "r1"),
             node("MatMul", ["a2", "w2"], ["c"], "m2"), node("Add", ["c", "b2"], ["c1"], "add2"), node("Relu", ["c1"], ["c2"], "r2"),
             node("MatMul", ["c2", "w3"], ["y"], "m3")]
    constants = {name: np.asarray(value, np.float32) for name, value in layers.items()}
    return make_model(nodes, [("x", ["N", 2])], [("y", ["N", 1])], constants), x


def test_runs_are_bounded_by_those_of_calibration(bitpress, tmp_path):
    """72 activations, of which each brings a little, once took some 400 runs for 8 samples."""
    model = save(deep_network(), tmp_path / "deep.onnx")
    rng = np.random.default_rng(1)
    samples = save_arrays(tmp_path / "samples", [rng.standard_normal((1, 3, 128, 128)).astype(np.float32) for _ in range(8)])
    wanted = quantize(bitpress, tmp_path, model, samples)[0]["guard"]["before_db"] + 3
    report, _ = quantize(bitpress, tmp_path, model, samples, "--set", f"guard={wanted:.1f}")
    assert report["guard"]["before_db"] < wanted
    assert report["guard"]["num_runs"] <= 64


def test_few_samples_answer_a_clear_question(bitpress, tmp_path):
    model = save(deep_network(num_layers=2, size=512), tmp_path / "wide.onnx")
    rng = np.random.default_rng(1)
    samples = save_arrays(tmp_path / "samples", [rng.standard_normal((1, 3, 512, 512)).astype(np.float32) for _ in range(6)])
    report, _ = quantize(bitpress, tmp_path, model, samples, "--set", "guard=5")
    assert report["guard"]["num_samples"] == 4 and report["guard"]["num_runs"] == 8


def test_no_activation_becomes_float_where_weights_alone_fail(bitpress, run_model, tmp_path):
    network, x = difference_network()
    model = save(network, tmp_path / "difference.onnx")
    samples = save_arrays(tmp_path / "samples", list(x[:128].reshape(32, 4, 2)))
    report, path = quantize(bitpress, tmp_path, model, samples)
    guard = report["guard"]
    assert guard["before_db"] < 15 and guard["weights_db"] < 15
    assert guard["num_left"] == 0 and guard["after_db"] == guard["before_db"] and guard["left_share"] == 0
    assert f"the weights alone bring output 'y' to {guard['weights_db']:.1f} dB" in guard["note"] and "finetune=adaquant" in guard["note"]
    plain = tmp_path / "plain.onnx"
    bitpress.ok("quantize", model, "-o", plain, "--config", "INT8", "--set", "guard=off", "--data", samples)
    inputs = {"x": x[200:]}
    guarded_db, plain_db = (sqnr_db(run_model(model, inputs)[0], run_model(one, inputs)[0]) for one in (path, plain))
    assert guarded_db == pytest.approx(plain_db, abs=0.01)


def test_weights_that_are_tuned_are_not_to_blame(bitpress, run_model, tmp_path):
    """They are quantized after the guard, and other than planned."""
    network, x = difference_network()
    model = save(network, tmp_path / "difference.onnx")
    samples = save_arrays(tmp_path / "samples", list(x[:128].reshape(32, 4, 2)))
    report, path = quantize(bitpress, tmp_path, model, samples, "--finetune", "adaquant")
    assert report["guard"]["num_left"] > 0 and report["guard"]["weights_db"] is None
    inputs = {"x": x[200:]}
    assert sqnr_db(run_model(model, inputs)[0], run_model(path, inputs)[0]) > 15

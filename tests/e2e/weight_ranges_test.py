"""Blocks of weights with weight_range=auto: what products lose decides, and the outputs where there are samples."""

import json

import decoder
import numpy as np
import onnx
import pytest
from models import make_model, save, save_arrays, sqnr_db
from onnx import helper

WIDTH = 256


def classifier():
    """Four layers. Their inputs have a mean, as behind any Relu."""
    rng = np.random.default_rng(2)
    weights = {f"w{i}": (rng.standard_normal((WIDTH, outputs)) / 12).astype(np.float32) for i, outputs in enumerate([WIDTH] * 3 + [8])}
    nodes, last = [], "x"
    for i in range(4):
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"p{i}"], f"layer{i}"))
        last = f"p{i}"
        if i < 3:
            nodes.append(helper.make_node("Relu", [last], [f"r{i}"], f"relu{i}"))
            last = f"r{i}"
    return make_model(nodes, [("x", ["N", WIDTH])], [(last, ["N", 8])], weights)


def layer():
    weight = (np.random.default_rng(4).standard_normal((WIDTH, 1)) / 16).astype(np.float32)
    return make_model([helper.make_node("MatMul", ["x", "w"], ["y"], "layer")], [("x", ["N", WIDTH])], [("y", ["N", 1])], {"w": weight}), weight


def inputs_along(direction, weight, count, seed):
    """Inputs that are nothing but a signal and a direction that some rounding of the weight hits."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        array = rng.uniform(0.5, 1) * weight[:, 0] / np.linalg.norm(weight) + rng.uniform(0.5, 1) * direction / np.linalg.norm(direction)
        yield array[None].astype(np.float32)


def codes_of(path):
    """The constants of a model, without what says how it was made."""
    return {tensor.name: tensor.SerializeToString() for tensor in onnx.load(path).graph.initializer}


@pytest.mark.quick
def test_products_lose_less_than_with_other_methods(bitpress, run_model, tmp_path):
    model = save(classifier(), tmp_path / "m.onnx")
    x = np.maximum(np.random.default_rng(9).standard_normal((64, WIDTH)) + 0.3, 0).astype(np.float32)
    found = {}
    for method in ("auto", "mse", "min_max"):
        bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS", "--set", f"weight_range={method}")
        found[method] = sqnr_db(run_model(model, {"x": x})[0], run_model(tmp_path / "q.onnx", {"x": x})[0])
    assert found["auto"] > max(found["mse"], found["min_max"]) + 0.5, found
    bitpress.ok("quantize", model, "-o", tmp_path / "default.onnx", "--config", "INT4_WEIGHTS")
    bitpress.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT4_WEIGHTS", "--set", "weight_range=auto")
    assert codes_of(tmp_path / "default.onnx") == codes_of(tmp_path / "q.onnx")


def test_the_outputs_choose_where_there_are_samples(bitpress, run_model, tmp_path):
    """Inputs that meet the errors of one method: no rule without samples can know that."""
    model, weight = layer()
    model = save(model, tmp_path / "m.onnx")

    def quantize(name, *words):
        text = bitpress.ok("quantize", model, "-o", tmp_path / name, "--config", "INT4_WEIGHTS", "--json", tmp_path / "report.json", *words)
        return text, json.loads((tmp_path / "report.json").read_text())["weight_range"]

    assert quantize("alone.onnx")[1] is None, "no samples, no choice"
    errors = run_model(tmp_path / "alone.onnx", {"x": np.eye(WIDTH, dtype=np.float32)})[0] - weight
    samples = save_arrays(tmp_path / "samples", inputs_along(errors[:, 0], weight, 12, 1))
    text, report = quantize("chosen.onnx", "--data", samples)
    tried = {one["method"]: one["sqnr_db"] for one in report["tried"]}
    assert list(tried) == ["auto", "min_max", "mse"] and report["num_samples"] == 8
    assert report["method"] == max(tried, key=tried.get) and tried[report["method"]] > tried["auto"] + 1
    assert f"weight_range: {report['method']}, by the outputs: auto {tried['auto']:.1f}, min_max {tried['min_max']:.1f}, mse {tried['mse']:.1f} (dB at the worst output, 8 samples)" in text
    assert quantize("given.onnx", "--set", f"weight_range={report['method']}", "--data", samples)[1] is None, "nothing is left to choose"
    assert codes_of(tmp_path / "chosen.onnx") == codes_of(tmp_path / "given.onnx") != codes_of(tmp_path / "alone.onnx")
    held = {"x": np.concatenate(list(inputs_along(errors[:, 0], weight, 32, 2)))}
    wanted = run_model(model, held)[0]
    assert sqnr_db(wanted, run_model(tmp_path / "chosen.onnx", held)[0]) > sqnr_db(wanted, run_model(tmp_path / "alone.onnx", held)[0]) + 1
    bitpress.ok("quantize", model, "-o", tmp_path / "again.onnx", "--config", "INT4_WEIGHTS", "--data", samples, "--threads", "3")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "chosen.onnx").read_bytes()


def test_decoders_have_the_least_squared_error(bitpress, tmp_path):
    """Their layers read what a norm gives, which has no mean: the error of products would lose more."""
    for name, model, expected in [("decoder", decoder.make(), {"mse"}), ("classifier", classifier(), {"auto"})]:
        path = save(model, tmp_path / f"{name}.onnx")
        bitpress.ok("plan", path, "-o", tmp_path / "plan.json", "--config", "INT4_WEIGHTS")
        rows = json.loads((tmp_path / "plan.json").read_text())["tensors"]
        assert {row["range"] for row in rows if row["role"] == "weight" and row["format"] == "uint4"} == expected

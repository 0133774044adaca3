"""Networks whose rows belong together, such as several views of one thing in the first dimension: each item of the samples is one."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper
from unusual_models_test import random, run, save, save_samples, sqnr_db

FLOAT = TensorProto.FLOAT


@pytest.fixture
def model(tmp_path):
    """Four rows of 16 numbers are one vector."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["v"], "join"), helper.make_node("MatMul", ["v", "w"], ["y"], "m")]
    return save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["N", 16])], [("y", FLOAT, ["M", 8])],
                {"shape": np.array([-1, 64]), "w": random(64, 8)})


@pytest.fixture
def samples(tmp_path):
    return save_samples(tmp_path / "samples", (4, 16))


def verdict(path):
    return {warning["kind"] for warning in json.loads(path.read_text())["verdict"]["warnings"]}


def test_items_are_whole_where_a_row_does_not_run(model, samples, tmp_path, bitpress):
    def quantized(*options):
        report = tmp_path / "q.json"
        bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples, "--json", report, *options)
        return (tmp_path / "q.onnx").read_bytes(), verdict(report)

    found, said = quantized()
    wanted, nothing = quantized("--whole-items")
    assert found == wanted and "whole_items" in said and "whole_items" not in nothing
    x = random(4, 16, scale=1, seed=3)
    assert sqnr_db(run(model, {"x": x})[0], run(tmp_path / "q.onnx", {"x": x})[0]) > 30
    for options in ((), ("--whole-items",)):
        assert "8 samples" in bitpress.ok("calibrate", model, "-o", tmp_path / "c.bpc", "--data", samples, *options)
    assert "8 samples" in bitpress.ok("evaluate", tmp_path / "q.onnx", "--reference", model, "--data", samples)
    bitpress.ok("check", tmp_path / "q.onnx", "--data", samples)


def test_rows_are_samples_where_they_run(tmp_path, samples, bitpress):
    plain = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], [("x", FLOAT, ["N", 16])], [("y", FLOAT, ["N", 8])],
                 {"w": random(16, 8)})
    assert "32 samples" in bitpress.ok("calibrate", plain, "-o", tmp_path / "c.bpc", "--data", samples)
    assert "8 samples" in bitpress.ok("calibrate", plain, "-o", tmp_path / "c.bpc", "--data", samples, "--whole-items")


def steps(tmp_path, ends):
    """Rows are steps of time that a window of three joins; at the end there may be the mean of all of them, or each step alone."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], "turn"), helper.make_node("Unsqueeze", ["t", "zero"], ["u"], "unsqueeze"),
             helper.make_node("Conv", ["u", "w"], ["c"], "conv", pads=[1, 1]), helper.make_node("Squeeze", ["c", "zero"], ["s"], "squeeze"),
             helper.make_node("Transpose", ["s"], ["steps" if ends == "steps" else "r"], "turn_back")]
    outputs = [("steps", FLOAT, ["T", 8])]
    if ends == "mean":
        nodes.append(helper.make_node("ReduceMean", ["r"], ["y"], "mean", axes=[0], keepdims=0))
        outputs = [("y", FLOAT, [8])]
    if ends == "rows":
        nodes.append(helper.make_node("MatMul", ["x", "m"], ["y"], "alone"))
        outputs = [("r", FLOAT, ["T", 8]), ("y", FLOAT, ["T", 8])]
    return save(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["T", 16])], outputs,
                {"zero": np.array([0]), "w": random(8, 16, 3), **({"m": random(16, 8)} if ends == "rows" else {})})


@pytest.mark.parametrize("ends", ["steps", "mean"])
def test_items_are_whole_where_rows_change_each_other(ends, samples, tmp_path, bitpress):
    model, report = steps(tmp_path, ends), tmp_path / "q.json"
    bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples, "--json", report)
    assert "whole_items" in verdict(report)
    assert "8 samples" in bitpress.ok("calibrate", model, "-o", tmp_path / "c.bpc", "--data", samples)
    assert "8 samples" in bitpress.ok("evaluate", tmp_path / "q.onnx", "--reference", model, "--data", samples)


def test_an_output_of_each_row_makes_rows_samples(samples, tmp_path, bitpress):
    assert "32 samples" in bitpress.ok("calibrate", steps(tmp_path, "rows"), "-o", tmp_path / "c.bpc", "--data", samples)


def test_the_error_of_a_row_names_the_option(model, tmp_path, bitpress):
    uneven = save_samples(tmp_path / "uneven", (3, 16))
    error = bitpress.error("calibrate", model, "-o", tmp_path / "c.bpc", "--data", uneven)
    assert "0.npy[0]" in error and "if the rows of an item belong together, give --whole-items" in error

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


def test_the_error_of_a_row_names_the_option(model, tmp_path, bitpress):
    uneven = save_samples(tmp_path / "uneven", (3, 16))
    error = bitpress.error("calibrate", model, "-o", tmp_path / "c.bpc", "--data", uneven)
    assert "0.npy[0]" in error and "if the rows of an item belong together, give --whole-items" in error

"""After a model was written with samples, its outputs are compared with those of the given model, and what is far off is said."""

import json
import re

import numpy as np
import pytest
from models import make_model, save
from onnx import TensorProto, helper


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in range(6):
        np.save(folder / f"{i}.npy", np.random.default_rng(i).standard_normal((1, 16)).astype(np.float32))
    return folder


def dense_path(folder, weight, extra=(), outputs=(("y", ["N", 16]),)):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "dense"), *extra]
    return save(make_model(nodes, [("x", ["N", 16])], list(outputs), {"w": weight.astype(np.float32)}), folder / "m.onnx")


def decibels(text, name):
    return float(re.search(rf"closeness to the given model on the first 4 samples: .*'{name}' (-?[\d.]+) dB", text)[1])


def test_closeness_is_that_of_evaluate(samples, tmp_path, bitpress):
    model = dense_path(tmp_path, np.random.default_rng(1).standard_normal((16, 16)))
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    bitpress.ok("evaluate", tmp_path / "q.onnx", "--reference", model, "--data", samples, "--samples", "4", "--json", tmp_path / "e.json")
    expected = json.loads((tmp_path / "e.json").read_text())["sqnr_db"]
    assert decibels(text, "y") == pytest.approx(expected, abs=0.06) and expected > 25
    assert "WARNING" not in text


def test_an_output_far_off_is_a_warning(samples, tmp_path, bitpress):
    # Beside weights for an input that is always zero, the others become zero.
    weight = np.random.default_rng(1).standard_normal((16, 16))
    weight[0] = 1000
    for path in samples.iterdir():
        np.save(path, np.load(path) * (np.arange(16) > 0).astype(np.float32))
    model = dense_path(tmp_path, weight, [helper.make_node("Relu", ["x"], ["z"])], [("y", ["N", 16]), ("z", ["N", 16])])
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX4", "--data", samples, "--finetune", "none")
    assert "'z' the same" in text
    assert "WARNING: output 'y' is far" in text and decibels(text, "y") < 10
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "FP16", "--data", samples)
    assert decibels(text, "y") > 40 and "WARNING" not in text


def test_without_samples_or_check_nothing_is_compared(samples, tmp_path, bitpress):
    model = dense_path(tmp_path, np.eye(16))
    assert "closeness" not in bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6")
    arguments = ["quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", samples]
    assert "closeness" in bitpress.checking.ok(*arguments)
    assert "closeness" not in bitpress.checking.ok(*arguments, "--check", "off")


def test_outputs_whose_shape_follows_from_values(samples, tmp_path, bitpress):
    # The places of numbers that are positive and, by rounding, not zero.
    extra = [helper.make_node("Relu", ["y"], ["r"]), helper.make_node("NonZero", ["r"], ["places"]),
             helper.make_node("Cast", ["places"], ["z"], to=TensorProto.FLOAT)]
    model = dense_path(tmp_path, np.random.default_rng(1).standard_normal((16, 16)) / 100, extra, [("y", ["N", 16]), ("z", [2, "M"])])
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX4", "--data", samples, "--set", "placement=all")
    assert "output 'z' has another shape than the given model's" in text and decibels(text, "y") < 30


def test_the_given_model_may_not_run(samples, tmp_path, bitpress):
    model = dense_path(tmp_path, np.eye(16), [helper.make_node("Nothing", ["y"], ["z"], domain="com.amd.quark")])
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", samples, "--as-is")
    assert "DOES NOT LOAD" in text and "closeness" not in text


def test_a_model_that_fails_on_a_later_sample_is_refused_or_fails_as_the_given_one(tmp_path, bitpress):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in range(4):  # the third sample has another length, which the Add does not take
        np.save(folder / f"{i}.npy", np.ones((1, 16 if i != 2 else 8), np.float32))
    nodes = [helper.make_node("Add", ["x", "w"], ["a"], "add"), helper.make_node("MatMul", ["a", "v"], ["y"], "dense")]
    model = save(make_model(nodes, [("x", ["N", "K"])], [("y", ["N", 16])], {"w": np.ones(16, np.float32), "v": np.eye(16, dtype=np.float32)}),
                 tmp_path / "m.onnx")
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", folder)
    assert "loads, but did not run" in text and "closeness" not in text

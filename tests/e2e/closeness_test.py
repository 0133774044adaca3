"""After a model was written with samples, its outputs are compared with those of the given model, and what is far off is said."""

import json
import re

import numpy as np
import pytest
from models import make_model, save, save_arrays, save_noise, sqnr_db
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
    return float(re.search(rf"closeness to the given model on the first \d+ samples: .*'{name}' (-?[\d.]+) dB", text)[1])


def test_closeness_is_the_mean_of_the_samples_noises(samples, tmp_path, bitpress, run_model):
    # Loud samples, whose energies would decide alone, and quiet ones count alike.
    for i, path in enumerate(sorted(samples.iterdir())):
        np.save(path, np.load(path) * np.float32(10**(i % 3)))
    model = dense_path(tmp_path, np.random.default_rng(1).standard_normal((16, 16)))
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples, "--set", "guard=off")
    assert "on the first 6 samples" in text
    runs = [{"x": np.load(path)} for path in sorted(samples.iterdir())]
    noises = [min(1, 10**(-sqnr_db(run_model(model, run)[0], run_model(tmp_path / "q.onnx", run)[0]) / 10)) for run in runs]
    expected = -10 * np.log10(np.mean(noises))
    assert decibels(text, "y") == pytest.approx(expected, abs=0.06) and expected < 30


@pytest.mark.parametrize("count", [20, 100])
def test_many_samples_are_compared_where_the_model_is_small(count, tmp_path, bitpress):
    model = dense_path(tmp_path, np.eye(16))
    samples = save_noise(tmp_path / "many", (1, 16), count)
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", samples)
    assert f"on the first {min(count, 64)} samples" in text


def test_an_output_far_off_is_a_warning(samples, tmp_path, bitpress):
    # Beside weights for an input that is always zero, the others become zero.
    weight = np.random.default_rng(1).standard_normal((16, 16))
    weight[0] = 1000
    for path in samples.iterdir():
        np.save(path, np.load(path) * (np.arange(16) > 0).astype(np.float32))
    model = dense_path(tmp_path, weight, [helper.make_node("Relu", ["x"], ["z"])], [("y", ["N", 16]), ("z", ["N", 16])])
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX4", "--data", samples, "--finetune", "none")
    assert "'z' the same" in text
    assert re.search(r"WARNING: output 'y' is far .*: -?[\d.]+ dB, where such formats should give 10", text) and decibels(text, "y") < 10
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "FP16", "--data", samples)
    assert decibels(text, "y") > 40 and "WARNING: output" not in text


def test_without_samples_or_check_nothing_is_compared(samples, tmp_path, bitpress):
    model = dense_path(tmp_path, np.eye(16))
    assert "closeness: not measured, for there are no samples" in bitpress.terse.ok("quantize", model, "-o", tmp_path / "q.onnx",
                                                                                    "--config", "MX6")
    arguments = ["quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", samples]
    assert re.search(r"closeness: \d\d.\d dB at output 'y' on 6 samples", bitpress.terse.ok(*arguments))
    assert "closeness: not measured; time: not measured" in bitpress.terse.ok(*arguments, "--check", "off")


def test_outputs_whose_shape_follows_from_values(samples, tmp_path, bitpress):
    # The places of numbers that are positive and, by rounding, not zero.
    extra = [helper.make_node("Relu", ["y"], ["r"]), helper.make_node("NonZero", ["r"], ["places"]),
             helper.make_node("Cast", ["places"], ["z"], to=TensorProto.FLOAT)]
    model = dense_path(tmp_path, np.random.default_rng(1).standard_normal((16, 16)) / 100, extra, [("y", ["N", 16]), ("z", [2, "M"])])
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX4", "--data", samples, "--set", "placement=all")
    assert re.search("output 'z' has another shape than the given model's in [1-6] of 6 runs", text) and decibels(text, "y") < 30


def test_the_given_model_may_not_run(samples, tmp_path, bitpress):
    model = dense_path(tmp_path, np.eye(16), [helper.make_node("Nothing", ["y"], ["z"], domain="com.amd.quark")])
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", samples, "--as-is")
    assert "DOES NOT LOAD" in text and "closeness: not measured;" in text


def test_a_model_that_fails_on_a_later_sample_is_refused_or_fails_as_the_given_one(tmp_path, bitpress):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in range(4):  # the third sample has another length, which the Add does not take
        np.save(folder / f"{i}.npy", np.ones((1, 16 if i != 2 else 8), np.float32))
    nodes = [helper.make_node("Add", ["x", "w"], ["a"], "add"), helper.make_node("MatMul", ["a", "v"], ["y"], "dense")]
    model = save(make_model(nodes, [("x", ["N", "K"])], [("y", ["N", 16])], {"w": np.ones(16, np.float32), "v": np.eye(16, dtype=np.float32)}),
                 tmp_path / "m.onnx")
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", folder)
    assert "loads it, but did not run it" in text and "closeness: not measured;" in text


def test_the_warning_compares_with_what_the_formats_should_give(tmp_path, bitpress):
    # One input is fifty times the others, which reach the output alone.
    samples = save_arrays(tmp_path / "samples", [np.random.default_rng(i).standard_normal((1, 16)).astype(np.float32)
                                                 * np.r_[50, np.ones(15)].astype(np.float32) for i in range(8)])
    weight = np.random.default_rng(1).standard_normal((16, 16))
    weight[0] = 0
    model = dense_path(tmp_path, weight)
    arguments = ["quantize", model, "-o", tmp_path / "q.onnx", "--data", samples]
    text = bitpress.checking.ok(*arguments, "--config", "INT8", "--set", "guard=off")
    assert 10 < decibels(text, "y") < 20 and "where such formats should give 20" in text
    text = bitpress.checking.ok(*arguments, "--config", "MX9")
    assert "where such formats should give 20" in text or decibels(text, "y") >= 20


def test_values_that_are_no_numbers_any_more_are_a_warning(tmp_path, bitpress):
    # Roots of sums that are just above zero: rounding the weights makes about half of them negative.
    weight = np.random.default_rng(1).standard_normal((16, 16))
    weight[15] = 0
    weight[:15] += 0.001 - weight[:15].mean(axis=0)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "dense"), helper.make_node("Sqrt", ["a"], ["y"], "root")]
    model = save(make_model(nodes, [("x", ["N", 16])], [("y", ["N", 16])], {"w": weight.astype(np.float32)}), tmp_path / "m.onnx")
    samples = save_arrays(tmp_path / "samples", [np.r_[np.ones(15), i].astype(np.float32)[None] for i in range(4)])
    data = tmp_path / "q.json"
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "MX4", "--data", samples, "--json", data,
                                "--finetune", "none")
    [output] = json.loads(data.read_text())["check"]["closeness"]["outputs"]
    assert output["num_lost"] > 0 and output["sqnr_db"] is None and not output["is_identical"]
    assert f"holds NaN or infinity where the given model gives numbers, in {output['num_lost']} of {4 * 16} values" in text
    bitpress.ok("evaluate", tmp_path / "q.onnx", "--reference", model, "--data", samples, "--json", data)
    assert json.loads(data.read_text())["sqnr_db"] is None


@pytest.mark.parametrize("kind", ["equal", "constant"])
def test_samples_that_say_nothing_are_named(kind, tmp_path, bitpress):
    one = np.random.default_rng(1).standard_normal((1, 16)).astype(np.float32)
    arrays = [one if kind == "equal" else np.full((1, 16), i, np.float32) for i in range(5)]
    samples = save_arrays(tmp_path / "samples", arrays)
    model = dense_path(tmp_path, np.random.default_rng(1).standard_normal((16, 16)))
    text = bitpress.checking.ok("quantize", model, "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "WARNING: the first 5 samples are all the same" in text if kind == "equal" else "WARNING: each sample is one number" in text


def test_outputs_that_do_not_vary_are_named(samples, tmp_path, bitpress):
    nodes = [helper.make_node("Mul", ["x", "zero"], ["n"], "silence"), helper.make_node("Add", ["n", "c"], ["z"], "add")]
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"], "dense"), *nodes], [("x", ["N", 16])], [("y", ["N", 16]), ("z", ["N", 16])],
                       {"w": np.eye(16, dtype=np.float32), "zero": np.float32(0), "c": np.ones(16, np.float32)})
    text = bitpress.checking.ok("quantize", save(model, tmp_path / "m.onnx"), "-o", tmp_path / "q.onnx", "--config", "INT8", "--data", samples)
    assert "'z' the same (which does not vary)" in text and "'y' the same (which" not in text
